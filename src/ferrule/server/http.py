"""Requests, responses and routes, independent of any web framework: `asgi` connects them to Starlette."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ferrule.core.context import Principal
from ferrule.core.json_text import dumps, loads
from ferrule.errors import DefinitionError, FerruleError

if TYPE_CHECKING:
    from ferrule.server.auth.keys import Key

T = TypeVar("T")

OPEN = "open"
"""The scope of a route that needs no key."""
ANY = "any"
"""The scope of a route that any key may use."""
ADMIN = "admin"
"""The scope of a route that a tenant's admins may use, for their tenant."""
OPERATOR = "operator"
"""The scope of a route that concerns the whole gateway."""
SMALL_BODY_BYTES = 65_536
"""Up to this size, parsing a body takes less time than handing it to a thread."""
JSON = "application/json"
EVENTS = "text/event-stream"


@dataclass(frozen=True, slots=True)
class Request:
    """An HTTP request. Header names are lower case; `principal` is set from the key before the handler runs."""

    method: str
    path: str
    id: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    query: Mapping[str, str] = field(default_factory=dict[str, str])
    params: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes = b""
    peer: str = ""
    principal: Principal = field(default_factory=Principal)
    key: Key | None = None
    """The key; None if the gateway has none, or the route needs none."""
    rights: frozenset[str] = frozenset()
    """The scopes of the key. A route may show or allow more to keys that have more scopes."""
    subprotocols: tuple[str, ...] = field(default=(), repr=False)
    """The subprotocols that a WebSocket client offers; one of them may carry a key."""

    def json(self) -> dict[str, Any]:
        """Parse the body as a JSON object."""
        try:
            value = loads(self.body.decode())
        except (ValueError, RecursionError) as error:
            raise DefinitionError("the request body is not JSON", hint="Send a JSON object in UTF-8.") from error
        if not isinstance(value, dict):
            raise DefinitionError("the request body is not a JSON object", hint="Send a JSON object.")
        return value  # pyright: ignore[reportUnknownVariableType]  # JSON objects have text keys

    async def read(self, reader: Callable[[dict[str, Any]], T]) -> tuple[dict[str, Any], T]:
        """Parse the body and apply `reader` to it. Long bodies are parsed in a thread, off the event loop."""
        if len(self.body) <= SMALL_BODY_BYTES:
            return self._parse(reader)
        return await asyncio.to_thread(self._parse, reader)

    def _parse(self, reader: Callable[[dict[str, Any]], T]) -> tuple[dict[str, Any], T]:
        body = self.json()
        return body, reader(body)


@dataclass(frozen=True, slots=True)
class Response:
    """A response whose body is sent at once."""

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    media_type: str = JSON

    @staticmethod
    def json(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
        # A lone surrogate has no UTF-8 encoding; in JSON its escape means the same.
        return Response(dumps(value).encode("utf-8", "backslashreplace"), status, headers or {})


@dataclass(frozen=True, slots=True)
class StreamingResponse:
    """A response whose body is sent in chunks. `chunks` is always closed, which stops whatever produces them.

    `keep_alive` is sent whenever nothing else was sent for `keep_alive_seconds`.
    """

    chunks: AsyncGenerator[bytes, None]
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    media_type: str = EVENTS
    keep_alive: bytes = b""
    keep_alive_seconds: float = 15.0


class StalledClientError(Exception):
    """The client did not read a chunk of its response within the time limit."""


AnyResponse = Response | StreamingResponse
Handler = Callable[[Request], Awaitable[AnyResponse]]
ErrorBody = Callable[[FerruleError, str], dict[str, Any]]
"""Turns an error and a request ID into the error body of an API."""


class Socket(Protocol):
    """A WebSocket connection that carries text."""

    async def receive(self) -> str | None:
        """The next message; None when the client has disconnected."""
        ...

    async def send(self, text: str, /) -> None: ...

    async def close(self, code: int = 1000, reason: str = "") -> None: ...


SocketHandler = Callable[[Request, Socket], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Route:
    """An HTTP route. `scope` is what a key needs to use it: "models", "tools", "approve", "admin" or "operator".

    "any" accepts every key, "open" needs none.
    """

    method: str
    path: str
    handler: Handler
    scope: str
    error_body: ErrorBody


@dataclass(frozen=True, slots=True)
class SocketRoute:
    """A WebSocket route. `protocol` is the only subprotocol that is ever selected, and only if the client offers it."""

    path: str
    handler: SocketHandler
    scope: str
    protocol: str | None = None


class Middleware(Protocol):
    """What every request passes before its handler: checks of head, Host, Origin, key and limits."""

    def check_head(self, fields: Iterable[tuple[bytes, bytes]], target_length: int, query_length: int, /) -> None:
        """Raise for headers that are too long, or for a repeated header that may occur only once."""
        ...

    def check_body(self, body: bytes, /) -> None:
        """Raise for a body that would take too long to parse."""
        ...

    def admit(self, request: Request, scope: str, /) -> AbstractAsyncContextManager[Request]:
        """Yield the request with its principal while it is served. Raises a `FerruleError` if it is not allowed."""
        ...

    @property
    def body_bytes(self) -> int:
        """The longest body, in bytes."""
        ...

    @property
    def body_seconds(self) -> float:
        """How long a body may take to arrive."""
        ...

    @property
    def send_seconds(self) -> float:
        """How long a client may leave a chunk unread."""
        ...
