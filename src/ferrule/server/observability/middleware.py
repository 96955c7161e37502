"""The front of a gateway that is watched: around the door, where every request passes and every error of one ends.

What nobody foresaw is turned here into an error of the tree, so that the client gets it in his own shape and learns
nothing but the request's id.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from types import TracebackType

from ferrule.errors import FerruleError
from ferrule.server.http import OPEN, Answer, Asked, Front, Route, SocketRoute, Stalled, Streamed
from ferrule.server.observability.answer_record import LEFT
from ferrule.server.observability.metrics import OTHER
from ferrule.server.observability.request_record import CURRENT, Seen
from ferrule.server.observability.telemetry import Watch
from ferrule.server.process import drain

_CONVERTER = re.compile(r":\w+(?=\})")


def watched(routes: Iterable[Route]) -> list[Route]:
    """The same routes; what they answer with is noted on the way out."""
    return [_noted(route) for route in routes]


def _noted(route: Route) -> Route:
    async def handler(asked: Asked) -> Answer:
        answer = await route.handler(asked)
        seen = CURRENT.get()
        if seen is not None:
            seen.given(answer.status, is_streaming=isinstance(answer, Streamed))
        return answer

    return replace(route, handler=handler)


@dataclass(slots=True)
class WatchedFront:
    """`front` decides; this looks on, and lets nobody in once the gateway is being stopped."""

    front: Front
    watch: Watch
    paths: frozenset[str]
    socket_paths: frozenset[str]

    @staticmethod
    def around(front: Front, watch: Watch, routes: Iterable[Route], sockets: Iterable[SocketRoute]) -> WatchedFront:
        socket_paths = frozenset(one.path for one in sockets)
        paths = frozenset(_CONVERTER.sub("", one.path) for one in routes)
        return WatchedFront(front, watch, paths | socket_paths, socket_paths)

    @property
    def body_bytes(self) -> int:
        return self.front.body_bytes

    @property
    def body_seconds(self) -> float:
        return self.front.body_seconds

    @property
    def send_seconds(self) -> float:
        return self.front.send_seconds

    def check_head(self, fields: Iterable[tuple[bytes, bytes]], address: int, query: int, /) -> None:
        self.front.check_head(fields, address, query)

    def check_body(self, body: bytes, /) -> None:
        self.front.check_body(body)

    @asynccontextmanager
    async def admitted(self, asked: Asked, scope: str, /) -> AsyncGenerator[Asked]:
        api = self._api(asked)
        seen = Seen(asked.id, api, api in self.socket_paths, self.watch.spans.parent(asked.headers))
        seen.task = asyncio.current_task()
        token = CURRENT.set(seen)
        try:
            with _Served(seen, self.watch):
                self.watch.drain.check(scope)
                async with self.front.admitted(asked, scope) as known:
                    # Who was not asked for a key is nobody, and not whoever needs none.
                    seen.principal = "" if scope == OPEN else known.principal.name
                    yield known
        finally:
            CURRENT.reset(token)

    def _api(self, asked: Asked) -> str:
        """The path of the route that was taken: with the names of its parameters, and not what was sent for them."""
        path = asked.path
        for name, value in asked.params.items():
            # Nothing can stand only for what ends a path.
            path = path.replace(f"/{value}", f"/{{{name}}}", 1) if value else f"{path}{{{name}}}"
        return path if path in self.paths else OTHER


@dataclass(slots=True)
class _Served:
    """One request. Every error that leaves it is seen here and none is kept: what is not ours is told in our words."""

    seen: Seen
    watch: Watch

    def __enter__(self) -> None:
        self.watch.begun(self.seen)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        told = self._told(error)
        if isinstance(told, FerruleError):
            self.watch.failed(told)
            self.seen.refused(told)
        self.watch.served(self.seen)
        # Once an answer has begun nothing can be said before it: the connection breaks, as it must.
        if told is not None and told is not error and not self.seen.is_streaming:
            raise told from error

    def _told(self, error: BaseException | None) -> BaseException | None:
        seen = self.seen
        if isinstance(error, asyncio.CancelledError) and seen.is_cut and seen.task is not None:
            seen.task.uncancel()
            return drain.refusal()
        if isinstance(error, Stalled) or (seen.is_socket and isinstance(error, ConnectionError)):
            seen.outcome = LEFT
            return error
        if isinstance(error, Exception) and not isinstance(error, FerruleError):
            return self.watch.unexpected(error, seen.id)
        return error
