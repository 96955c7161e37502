"""What a route is given and what it gives back. Knows no web framework: `web` puts it on one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from ferrule.core.context import Principal
from ferrule.core.json_text import dumps, loads
from ferrule.errors import DefinitionError, FerruleError

T = TypeVar("T")

OPEN = "open"
"""The scope of a route that asks for no key."""
ANY = "any"
"""The scope of a route for whoever has a key."""
SHORT = 65_536
"""A body of so many bytes is read sooner than it is handed to a thread."""
JSON = "application/json"
EVENTS = "text/event-stream"


@dataclass(frozen=True, slots=True)
class Asked:
    """A request. `headers` have lower-case names; `principal` is who asks, known by his key before a route is run."""

    method: str
    path: str
    id: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    query: Mapping[str, str] = field(default_factory=dict[str, str])
    params: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes = b""
    peer: str = ""
    principal: Principal = field(default_factory=Principal)
    rights: frozenset[str] = frozenset()
    """The scopes that his key has: what a route may let him see or do besides what it is there for."""
    subprotocols: tuple[str, ...] = field(default=(), repr=False)
    """What a WebSocket's client offers; a key may be among them."""

    def json(self) -> dict[str, Any]:
        """The body as a JSON object."""
        try:
            value = loads(self.body.decode())
        except (ValueError, RecursionError) as damage:
            raise DefinitionError("the body is not JSON", hint="Send a JSON object in UTF-8.") from damage
        if not isinstance(value, dict):
            raise DefinitionError("the body is not a JSON object", hint="Send a JSON object.")
        return value  # pyright: ignore[reportUnknownVariableType]  # JSON objects have text keys

    async def read(self, reader: Callable[[dict[str, Any]], T]) -> tuple[dict[str, Any], T]:
        """The body as a JSON object, and what a reader makes of it; of a long one in a thread, so that nobody waits."""
        if len(self.body) <= SHORT:
            return self._read(reader)
        return await asyncio.to_thread(self._read, reader)

    def _read(self, reader: Callable[[dict[str, Any]], T]) -> tuple[dict[str, Any], T]:
        body = self.json()
        return body, reader(body)


@dataclass(frozen=True, slots=True)
class Whole:
    """An answer that is sent at once."""

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    media_type: str = JSON

    @staticmethod
    def of(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Whole:
        # Half of a surrogate pair has no UTF-8; inside JSON its escape means the same.
        return Whole(dumps(value).encode("utf-8", "backslashreplace"), status, headers or {})


@dataclass(frozen=True, slots=True)
class Streamed:
    """An answer that is sent as it forms. Closing `pieces` stops whatever forms it; it is closed in any case.

    `keep_alive` is sent whenever nothing else was for so many seconds.
    """

    pieces: AsyncGenerator[bytes, None]
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    media_type: str = EVENTS
    keep_alive: bytes = b""
    keep_alive_seconds: float = 15.0


class Stalled(Exception):
    """The reader of an answer has not read for as long as it may."""


Answer = Whole | Streamed
Handler = Callable[[Asked], Awaitable[Answer]]
ErrorBody = Callable[[FerruleError, str], dict[str, Any]]
"""An error and the request's id as the body that the clients of an API read."""


class Socket(Protocol):
    """A WebSocket, in texts."""

    async def receive(self) -> str | None:
        """The next text; None when the other side is gone."""
        ...

    async def send(self, text: str, /) -> None: ...

    async def close(self, code: int = 1000, reason: str = "") -> None: ...


SocketHandler = Callable[[Asked, Socket], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Route:
    """`scope` is what a key must have to come in: "models", "tools", "approve", "admin".

    "any" asks for a key, whatever it has; "open" for none.
    """

    method: str
    path: str
    handler: Handler
    scope: str
    error_body: ErrorBody


@dataclass(frozen=True, slots=True)
class SocketRoute:
    """`protocol` is chosen where the client offers it; nothing else that it offers ever is."""

    path: str
    handler: SocketHandler
    scope: str
    protocol: str | None = None


class Front(Protocol):
    """Who stands at the door: looks at head, Host, Origin and key, and counts who is inside."""

    def check_head(self, fields: Iterable[tuple[bytes, bytes]], address: int, query: int, /) -> None:
        """Raises for headers that are too long, or that say twice what can be said once; the numbers are lengths."""
        ...

    def check_body(self, body: bytes, /) -> None:
        """Raises for a body that would take too long to read."""
        ...

    def admitted(self, asked: Asked, scope: str, /) -> AbstractAsyncContextManager[Asked]:
        """The request with its principal, while it is being answered. Raises a `FerruleError` for who may not in."""
        ...

    @property
    def body_bytes(self) -> int:
        """How long a body may be."""
        ...

    @property
    def body_seconds(self) -> float:
        """How long a body may take to arrive."""
        ...

    @property
    def send_seconds(self) -> float:
        """How long a reader may leave a piece unread."""
        ...
