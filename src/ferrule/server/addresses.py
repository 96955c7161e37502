"""Addresses: which of them is this machine, and how one is shown to people without what it keeps secret."""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import urlsplit

_PASSWORD = re.compile(r"(?<=://)([^/@\s:]*):[^/@\s]*@")
# On a bus, a user without a password is a token.
_TOKEN = re.compile(r"\b((?:nats|tls|wss?)://)[^/@:\s]+@")
_SECRET_OPTION = re.compile(r"(?i)([?&](?:[a-z_]*key|token|secret|password)=)[^&]*")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a host. A name that is not localhost may stand for anything."""
    bare = host.removeprefix("[").removesuffix("]")
    try:
        return ipaddress.ip_address(bare).is_loopback
    except ValueError:
        return bare.lower() == "localhost"


def host_of(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def without_secrets(text: str) -> str:
    """An address or an engine's string with passwords and keys left out."""
    return _SECRET_OPTION.sub(r"\1***", _TOKEN.sub(r"\1***@", _PASSWORD.sub(r"\1:***@", text)))
