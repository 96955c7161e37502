"""Hosts and origins as a request writes them, read to the letter: what is not exactly one is refused, not mended.

Two readers that disagree about a Host are a way in, so there is one reader. Must not know keys.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv6Address

from ferrule.errors import DefinitionError, HostError, RequestError
from ferrule.server.config.config import EVERY_HOST

_HOST = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]{2,45})\]|(?P<name>[A-Za-z0-9_.-]{1,253}))(?::(?P<port>[0-9]{0,5}))?")
_PORTS = {"http": 80, "https": 443}
_MOST_PORTS = 65_535
_SHOWN = 80


@dataclass(frozen=True, slots=True)
class Host:
    """A name in lower case without the dot that may end it, or an address; the port where one was written."""

    name: str
    port: int | None = None

    def is_under(self, served: Host) -> bool:
        """Whether it is what is served: on any port where none was named."""
        return self.name == served.name and served.port in (None, self.port)


def read_host(text: str) -> Host | None:
    """The host of a text; None where it is not exactly one."""
    found = _HOST.fullmatch(text)
    if found is None:
        return None
    port = int(found["port"]) if found["port"] else None
    if port is not None and port > _MOST_PORTS:
        return None
    name = _address(found["six"]) if found["six"] else _name(found["name"])
    return Host(name, port) if name else None


def _name(text: str) -> str:
    name = text.lower().removesuffix(".")
    return name if all(name.split(".")) else ""


def _address(text: str) -> str:
    try:
        return f"[{IPv6Address(text).compressed}]"
    except AddressValueError:
        return ""


@dataclass(frozen=True, slots=True)
class Served:
    """What a gateway answers to. `hosts` None is every host; an origin is never "every": pages are named.

    `admits_own`: besides those that are named, pages of the very host and port that the request is sent to.
    """

    hosts: tuple[Host, ...] | None
    origins: frozenset[tuple[str, Host]]
    admits_own: bool = False

    @staticmethod
    def of(hosts: Iterable[str], origins: Iterable[str], *, admits_own: bool = False) -> Served:
        named = list(hosts)
        read = [
            read_host(text if text.count(":") < 2 or "]" in text else f"[{text}]")
            for text in named
            if text != EVERY_HOST
        ]
        if None in read:
            raise DefinitionError(f"hosts: {named[read.index(None)]!r} is no host", hint="Write a name or an address.")
        pages = [_origin(text) for text in origins]
        if None in pages:
            raise DefinitionError("origins: one is no page's origin", hint="Write it as https://chat.example.com.")
        every = None if EVERY_HOST in named else tuple(filter(None, read))
        return Served(every, frozenset(filter(None, pages)), admits_own)

    def check(self, host: str | None, origin: str | None) -> None:
        """Raises for a request that came under another name, or from a page that is not one of ours."""
        found = read_host(host) if host is not None else None
        if found is None:
            raise RequestError("there is no Host that can be read", hint="Send one Host header: a name and a port.")
        if self.hosts is not None and not any(found.is_under(one) for one in self.hosts):
            raise HostError(f"the host {found.name[:_SHOWN]!r} is not served here", hint="Name it in hosts.")
        # "null" is what any sandboxed page or file says: it names nobody, so nobody can allow it.
        page = _origin(origin) if origin is not None else None
        if origin is not None and page not in self.origins and not (self.admits_own and _is_own(page, found)):
            raise HostError(f"pages of {origin[:_SHOWN]!r} may not call this", hint="Name the page in origins.")


def _is_own(page: tuple[str, Host] | None, host: Host) -> bool:
    """Whether a page is of the very host and port. TLS may end before us, so that its scheme is believed."""
    if page is None or page[0] not in _PORTS:
        return False
    return page[1] == Host(host.name, host.port or _PORTS[page[0]])


def _origin(text: str) -> tuple[str, Host] | None:
    scheme, mark, rest = text.partition("://")
    host = read_host(rest) if mark else None
    if host is None or not scheme.isascii() or not scheme.replace("-", "").isalnum():
        return None
    scheme = scheme.lower()
    return scheme, Host(host.name, host.port or _PORTS.get(scheme))
