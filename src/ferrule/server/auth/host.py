"""Parse Host and Origin headers strictly: anything that is not exactly one host is refused, never repaired.

Two parsers that disagree about a Host header are a security hole, so there is only this one. Must not know keys.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv6Address, ip_address
from urllib.parse import urlsplit

from ferrule.errors import DefinitionError, HostError, RequestError
from ferrule.server.config.config import EVERY_HOST

_HOST = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]{2,45})\]|(?P<name>[A-Za-z0-9_.-]{1,253}))(?::(?P<port>[0-9]{0,5}))?")
_PORTS = {"http": 80, "https": 443}
_MAX_PORT = 65_535
_MAX_SHOWN = 80


@dataclass(frozen=True, slots=True)
class Host:
    """A lower-case name without trailing dot, or an address; `port` is None if none was written."""

    name: str
    port: int | None = None

    def matches(self, served: Host) -> bool:
        """Whether a configured host covers this one. A configured host without a port covers every port."""
        return self.name == served.name and served.port in (None, self.port)


def parse_host(text: str) -> Host | None:
    """Parse a host with an optional port. Returns None for anything else."""
    match = _HOST.fullmatch(text)
    if match is None:
        return None
    port = int(match["port"]) if match["port"] else None
    if port is not None and port > _MAX_PORT:
        return None
    name = _normalize_ipv6(match["six"]) if match["six"] else _normalize_name(match["name"])
    return Host(name, port) if name else None


def _normalize_name(text: str) -> str:
    name = text.lower().removesuffix(".")
    return name if all(name.split(".")) else ""


def _normalize_ipv6(text: str) -> str:
    try:
        return f"[{IPv6Address(text).compressed}]"
    except AddressValueError:
        return ""


@dataclass(frozen=True, slots=True)
class HostPolicy:
    """The hosts and origins that a gateway accepts. `hosts` is None for every host; origins are always listed.

    `allows_own_pages`: also accept pages from the same host and port that the request is sent to.
    """

    hosts: tuple[Host, ...] | None
    origins: frozenset[tuple[str, Host]]
    allows_own_pages: bool = False

    @staticmethod
    def of(hosts: Iterable[str], origins: Iterable[str], *, allows_own_pages: bool = False) -> HostPolicy:
        names = list(hosts)
        parsed = [
            parse_host(text if text.count(":") < 2 or "]" in text else f"[{text}]")
            for text in names
            if text != EVERY_HOST
        ]
        if None in parsed:
            raise DefinitionError(
                f"hosts: {names[parsed.index(None)]!r} is not a host", hint="Write a name or an address."
            )
        pages = [_parse_origin(text) for text in origins]
        if None in pages:
            raise DefinitionError("origins: an entry is not an origin", hint="Write it as https://chat.example.com.")
        allowed = None if EVERY_HOST in names else tuple(filter(None, parsed))
        return HostPolicy(allowed, frozenset(filter(None, pages)), allows_own_pages)

    def check(self, host: str | None, origin: str | None) -> None:
        """Raise for a request to another host, or from a page whose origin is not accepted."""
        requested = parse_host(host) if host is not None else None
        if requested is None:
            raise RequestError("the Host header is missing or invalid", hint="Send one Host header: a name and a port.")
        if self.hosts is not None and not any(requested.matches(one) for one in self.hosts):
            raise HostError(
                f"the host {requested.name[:_MAX_SHOWN]!r} is not served here", hint="Add it to server.hosts."
            )
        # Every sandboxed page and local file sends the origin "null", so it cannot be accepted.
        page = _parse_origin(origin) if origin is not None else None
        if (
            origin is not None
            and page not in self.origins
            and not (self.allows_own_pages and _is_same_origin(page, requested))
        ):
            raise HostError(
                f"pages from {origin[:_MAX_SHOWN]!r} may not call this gateway",
                hint="Add the origin to server.origins.",
            )


def _is_same_origin(page: tuple[str, Host] | None, host: Host) -> bool:
    """Whether a page comes from this host and port. The scheme is not checked: a proxy may terminate TLS."""
    if page is None or page[0] not in _PORTS:
        return False
    return page[1] == Host(host.name, host.port or _PORTS[page[0]])


def _parse_origin(text: str) -> tuple[str, Host] | None:
    scheme, separator, rest = text.partition("://")
    host = parse_host(rest) if separator else None
    if host is None or not scheme.isascii() or not scheme.replace("-", "").isalnum():
        return None
    scheme = scheme.lower()
    return scheme, Host(host.name, host.port or _PORTS.get(scheme))


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a host. Names other than localhost are not resolved and count as remote."""
    bare = host.removeprefix("[").removesuffix("]")
    try:
        return ip_address(bare).is_loopback
    except ValueError:
        return bare.lower() == "localhost"


def host_of(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""
