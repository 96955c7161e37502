"""Telemetry around admission: every request passes through here, and every error of a request ends here.

An unexpected exception becomes a `FerruleError`, so that the client receives it in the format of its API, with the
request ID and no details.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from types import TracebackType

from ferrule.errors import FerruleError
from ferrule.server.http import (
    OPEN,
    AnyResponse,
    Middleware,
    Request,
    Route,
    SocketRoute,
    StalledClientError,
    StreamingResponse,
)
from ferrule.server.observability.answer_record import CLIENT_LEFT
from ferrule.server.observability.metrics import OTHER
from ferrule.server.observability.telemetry import CURRENT, UNLOGGED, RequestRecord, Telemetry

IGNORED = "ferrule-ignored"
"""The response header with the paths of what the client sent and nobody carries out."""
_CONVERTER = re.compile(r":\w+(?=\})")


def instrument_routes(routes: Iterable[Route]) -> list[Route]:
    """Wrap the handlers of routes so that their responses are recorded."""
    return [_instrument_route(route) for route in routes]


def _instrument_route(route: Route) -> Route:
    async def handler(request: Request) -> AnyResponse:
        response = await route.handler(request)
        record = CURRENT.get()
        if record is not None:
            if record.ignored:
                response = replace(response, headers={**response.headers, IGNORED: ", ".join(record.ignored)})
            record.record_response(response.status, is_streaming=isinstance(response, StreamingResponse))
        return response

    return replace(route, handler=handler)


@dataclass(slots=True)
class InstrumentedApp:
    """Wraps another `Middleware` with telemetry, and refuses new requests while the gateway drains."""

    middleware: Middleware
    telemetry: Telemetry
    paths: frozenset[str]
    socket_paths: frozenset[str]

    @staticmethod
    def wrap(
        middleware: Middleware, telemetry: Telemetry, routes: Iterable[Route], sockets: Iterable[SocketRoute]
    ) -> InstrumentedApp:
        socket_paths = frozenset(one.path for one in sockets)
        paths = frozenset(_CONVERTER.sub("", one.path) for one in routes)
        return InstrumentedApp(middleware, telemetry, paths | socket_paths, socket_paths)

    @property
    def body_bytes(self) -> int:
        return self.middleware.body_bytes

    @property
    def body_seconds(self) -> float:
        return self.middleware.body_seconds

    @property
    def send_seconds(self) -> float:
        return self.middleware.send_seconds

    def check_head(self, fields: Iterable[tuple[bytes, bytes]], target_length: int, query_length: int, /) -> None:
        self.middleware.check_head(fields, target_length, query_length)

    def check_body(self, body: bytes, /) -> None:
        self.middleware.check_body(body)

    @asynccontextmanager
    async def admit(self, request: Request, scope: str, /) -> AsyncGenerator[Request]:
        api = self._route_path(request)
        is_socket = api in self.socket_paths
        # A connection is no unit of work: its answers are.
        route = "" if is_socket or api in UNLOGGED else api
        trace = self.telemetry.spans.begin_request(request.headers, request.method, route)
        record = RequestRecord(request.id, api, is_socket, trace)
        record.task = asyncio.current_task()
        token = CURRENT.set(record)
        try:
            with _RequestScope(record, self.telemetry):
                self.telemetry.drain.check(scope)
                async with self.middleware.admit(request, scope) as admitted_request:
                    # On an open route nobody was authenticated, so there is no principal to log.
                    if scope != OPEN:
                        record.principal = admitted_request.principal.name
                        record.tenant = admitted_request.principal.tenant
                        key = admitted_request.key
                        record.key_id = key.id if key else ""
                        if key is not None and key.is_token:
                            record.token_expires_at = key.expires_at
                    yield admitted_request
        finally:
            CURRENT.reset(token)

    def _route_path(self, request: Request) -> str:
        """The path of the matched route, with the names of its parameters instead of their values."""
        path = request.path
        for name, value in request.params.items():
            # An empty value can only be a parameter at the end of the path.
            path = path.replace(f"/{value}", f"/{{{name}}}", 1) if value else f"{path}{{{name}}}"
        return path if path in self.paths else OTHER


@dataclass(slots=True)
class _RequestScope:
    """Records one request and its error, and replaces unexpected exceptions."""

    record: RequestRecord
    telemetry: Telemetry

    def __enter__(self) -> None:
        self.telemetry.begin_request(self.record)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        client_error = self._client_error(error)
        if isinstance(client_error, FerruleError):
            self.telemetry.record_error(client_error)
            self.record.record_error(client_error)
            if not self.record.is_traced:
                self.telemetry.on_early_error(self.record, client_error)
        self.telemetry.end_request(self.record)
        # After a streaming response has started, no error response can be sent: the connection breaks.
        if client_error is not None and client_error is not error and not self.record.is_streaming:
            raise client_error from error

    def _client_error(self, error: BaseException | None) -> BaseException | None:
        record = self.record
        if isinstance(error, asyncio.CancelledError) and record.cancel_error is not None and record.task is not None:
            record.task.uncancel()
            return record.cancel_error
        if isinstance(error, StalledClientError) or (record.is_socket and isinstance(error, ConnectionError)):
            record.outcome = CLIENT_LEFT
            return error
        if isinstance(error, Exception) and not isinstance(error, FerruleError):
            return self.telemetry.handle_unexpected(error, record.id)
        return error
