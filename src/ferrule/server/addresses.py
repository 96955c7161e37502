"""Addresses: tell loopback hosts from others, and mask secrets before an address is shown."""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import urlsplit

_PASSWORD = re.compile(r"(?<=://)([^/@\s:]*):[^/@\s]*@")
# In a NATS URL, a user without a password is a token.
_TOKEN = re.compile(r"\b((?:nats|tls|wss?)://)[^/@:\s]+@")
_SECRET_OPTION = re.compile(r"(?i)([?&](?:[a-z_]*key|token|secret|password)=)[^&]*")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a host. Names other than localhost are not resolved and count as remote."""
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


def mask_secrets(text: str) -> str:
    """Replace passwords, tokens and keys in an address or an engine string with `***`."""
    return _SECRET_OPTION.sub(r"\1***", _TOKEN.sub(r"\1***@", _PASSWORD.sub(r"\1:***@", text)))
