"""Run routes on ASGI. The only module that imports Starlette.

It reads bodies within limits, sends responses, and stops the handler when the client disconnects. Every error becomes
a response body in the format of the route's API, with a request ID and without a stack trace.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Iterable, Mapping
from contextlib import aclosing, suppress
from dataclasses import replace
from traceback import clear_frames
from typing import Any
from urllib.parse import parse_qsl

from starlette.routing import Route as HttpRoute
from starlette.routing import Router, WebSocketRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from ferrule.dialects.openai_error import error_body as openai_error
from ferrule.engines.deadlines import DeadlineTimer
from ferrule.errors import (
    FerruleError,
    InterruptedAnswerError,
    NotFoundError,
    QuotaError,
    TooLargeError,
    TooSlowError,
    UnauthenticatedError,
)
from ferrule.server.http import (
    ANY,
    SMALL_BODY_BYTES,
    AnyResponse,
    Middleware,
    Request,
    Response,
    Route,
    SocketRoute,
    StalledClientError,
    StreamingResponse,
)

# ResponseWriter: sends the chunks of one streaming response.
#
# It drops clients that do not read, and sends keep-alive chunks while there is nothing else to send.


class ResponseWriter:
    """`send_seconds` limits how long a client may leave a chunk unread: flow control alone would wait forever.

    One task sends everything except keep-alive chunks.
    """

    __slots__ = ("_deadline", "_has_started", "_loop", "_send", "_send_seconds", "_sent_at", "_task")

    def __init__(self, send: Send, send_seconds: float) -> None:
        self._send = send
        self._send_seconds = send_seconds
        self._deadline = DeadlineTimer()
        self._loop = asyncio.get_running_loop()
        self._sent_at = self._loop.time()
        self._task: asyncio.Task[Any] | None = None
        self._has_started = False

    async def start(self, head: Message) -> None:
        self._task = asyncio.current_task()
        await self._write(head)
        self._has_started = True

    async def send(self, chunk: bytes) -> None:
        await self._write({"type": "http.response.body", "body": chunk, "more_body": True})

    async def end(self) -> None:
        # From here on no keep-alive may be sent.
        self._has_started = False
        await self._write({"type": "http.response.body", "body": b"", "more_body": False})

    async def send_keep_alive(self, chunk: bytes, seconds: float) -> None:
        """Send `chunk` whenever nothing else was sent for `seconds`. Runs until it is cancelled."""
        while True:
            idle_seconds = self._loop.time() - self._sent_at
            if idle_seconds >= seconds and self._has_started:
                self._sent_at = self._loop.time()
                await self._send({"type": "http.response.body", "body": chunk, "more_body": True})
                idle_seconds = 0.0
            await asyncio.sleep(max(seconds - idle_seconds, 0.01))

    def close(self) -> None:
        self._deadline.close()

    async def _write(self, message: Message) -> None:
        self._deadline.start(self._send_seconds, self._task)
        try:
            await self._send(message)
        except asyncio.CancelledError as cancelled:
            self._deadline.reraise_unless_expired(cancelled)
            raise StalledClientError from cancelled
        self._deadline.stop()
        self._sent_at = self._loop.time()


async def cancel_and_wait(*tasks: asyncio.Future[Any]) -> None:
    """Cancel tasks, wait until they have ended, and free what their frames held."""
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    for task in tasks:
        try:
            error = task.exception()
        except asyncio.CancelledError as cancelled:
            error = cancelled
        if error is not None:
            clear_tracebacks(error)


def clear_tracebacks(error: BaseException) -> None:
    """Clear the local variables of all frames that an exception, its causes and its contexts passed through."""
    visited: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in visited:
        visited.add(id(current))
        clear_frames(current.__traceback__)
        current = current.__cause__ or current.__context__


_REQUEST_ID = "x-request-id"
_SOON_SECONDS = 60.0
_UNAUTHORIZED = 401
_NOT_QUOTABLE = re.compile(r"[^\x20\x21\x23-\x5b\x5d-\x7e]")
"""What may not stand in an `error_description`."""
_DENIAL = "websocket.http.response"
_POLICY_VIOLATION, _TRY_AGAIN_LATER = 1008, 1013
# Longer numbers are refused before int() parses them, which is slow for thousands of digits.
_MAX_DIGITS = 18


def asgi(routes: Iterable[Route], sockets: Iterable[SocketRoute], middleware: Middleware) -> ASGIApp:
    """Build the ASGI application.

    The catch-all route needs a key as well, so that a client without one cannot find out which routes exist.
    """
    starlette_routes: list[Any] = [
        HttpRoute(one.path, _Endpoint(one, middleware), methods=[one.method]) for one in routes
    ]
    starlette_routes += [WebSocketRoute(one.path, _SocketEndpoint(one, middleware)) for one in sockets]
    # Last: every path and method that no route takes. It also keeps Starlette from redirecting paths with a slash.
    catch_all = _Endpoint(_CATCH_ALL, middleware)
    starlette_routes.append(HttpRoute("/{path:path}", catch_all))
    # The router alone: Starlette's own middleware would cost two more coroutines for each chunk, and it only handles
    # errors that do not leave an endpoint.
    app = Router(routes=starlette_routes)
    close_socket = app.default

    async def answer_unmatched(scope: Scope, receive: Receive, send: Send) -> None:
        # A path with a line break matches no pattern of Starlette, which would answer in plain text.
        await (catch_all if scope["type"] == "http" else close_socket)(scope, receive, send)

    app.default = answer_unmatched
    return app


class _Endpoint:
    """Serves one route as an ASGI application."""

    def __init__(self, route: Route, middleware: Middleware) -> None:
        self._route = route
        self._middleware = middleware

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = _parse_request(scope)
        try:
            _check_head(scope, self._middleware)
            async with self._middleware.admit(request, self._route.scope) as admitted_request:
                body = await self._read_body(admitted_request, receive)
                if len(body) <= SMALL_BODY_BYTES:
                    self._middleware.check_body(body)
                else:
                    await asyncio.to_thread(self._middleware.check_body, body)
                response = await self._run_handler(admitted_request, body, receive)
                if response is not None:
                    await self._send(response, request, receive, send)
        except StalledClientError:
            # The client does not read, so no error can reach it. The server closes the unfinished response.
            return
        except FerruleError as error:
            await self._send(
                error_response(error, request.id, self._route.error_body(error, request.id)), request, receive, send
            )

    async def _read_body(self, request: Request, receive: Receive) -> bytes:
        limit = self._middleware.body_bytes
        content_length = request.headers.get("content-length", "0")
        if (
            not content_length.isascii()
            or not content_length.isdigit()
            or len(content_length) > _MAX_DIGITS
            or int(content_length) > limit
        ):
            raise _too_large(limit)
        chunks: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self._middleware.body_seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return b""
                    chunks.append(message.get("body", b""))
                    size += len(chunks[-1])
                    if size > limit:
                        raise _too_large(limit)
                    if not message.get("more_body", False):
                        return b"".join(chunks)
        except TimeoutError as error:
            raise TooSlowError(
                "the request body did not arrive in time", hint="Send the body without pauses."
            ) from error

    async def _run_handler(self, request: Request, body: bytes, receive: Receive) -> AnyResponse | None:
        """Run the handler. Returns None if the client disconnects first."""
        handler = asyncio.ensure_future(self._route.handler(replace(request, body=body)))
        disconnect = asyncio.ensure_future(_wait_for_disconnect(receive))
        try:
            await asyncio.wait({handler, disconnect}, return_when=asyncio.FIRST_COMPLETED)
            return handler.result() if handler.done() else None
        finally:
            disconnect.cancel()
            if not handler.done():
                await cancel_and_wait(handler)

    async def _send(self, response: AnyResponse, request: Request, receive: Receive, send: Send) -> None:
        headers = {
            "content-type": response.media_type,
            _REQUEST_ID: request.id,
            "request-id": request.id,
            **response.headers,
        }
        if isinstance(response, Response):
            headers["content-length"] = str(len(response.body))
            await send(_start_message(response.status, headers))
            await send({"type": "http.response.body", "body": response.body})
            return
        # Proxies such as nginx buffer streams unless these headers forbid it.
        headers |= {"cache-control": "no-cache", "x-accel-buffering": "no"}
        writer = ResponseWriter(send, self._middleware.send_seconds)
        send_task = asyncio.ensure_future(self._send_chunks(response, headers, writer))
        side_tasks = [asyncio.ensure_future(_wait_for_disconnect(receive))]
        if response.keep_alive:
            side_tasks.append(
                asyncio.ensure_future(writer.send_keep_alive(response.keep_alive, response.keep_alive_seconds))
            )
        try:
            await asyncio.wait({send_task, *side_tasks}, return_when=asyncio.FIRST_COMPLETED)
            if send_task.done():
                send_task.result()
        finally:
            await cancel_and_wait(send_task, *side_tasks)
            writer.close()

    async def _send_chunks(
        self, response: StreamingResponse, headers: Mapping[str, str], writer: ResponseWriter
    ) -> None:
        async with aclosing(response.chunks) as chunks:
            await writer.start(_start_message(response.status, headers))
            async for chunk in chunks:
                await writer.send(chunk)
            await writer.end()


class _SocketEndpoint:
    def __init__(self, route: SocketRoute, middleware: Middleware) -> None:
        self._route = route
        self._middleware = middleware

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = _parse_request(scope)
        socket = WebSocket(scope, receive, send)
        try:
            _check_head(scope, self._middleware)
            async with self._middleware.admit(request, self._route.scope) as admitted_request:
                is_offered = self._route.protocol in admitted_request.subprotocols
                await socket.accept(self._route.protocol if is_offered else None)
                await self._route.handler(admitted_request, _Socket(socket, self._middleware))
        except FerruleError as error:
            if socket.application_state is WebSocketState.CONNECTING and _DENIAL in scope.get("extensions", {}):
                await _deny(request, error, send)
            elif socket.application_state is not WebSocketState.DISCONNECTED:
                code = _TRY_AGAIN_LATER if getattr(error, "ends_connection", False) else _POLICY_VIOLATION
                await socket.close(code, error.code)


async def _deny(request: Request, error: FerruleError, send: Send) -> None:
    """Answer a refused handshake as a refused request: a close code would reach the client as a bare status 403."""
    response = error_response(error, request.id, openai_error(error))
    headers = {
        "content-type": response.media_type,
        "content-length": str(len(response.body)),
        _REQUEST_ID: request.id,
        **response.headers,
    }
    await send({**_start_message(response.status, headers), "type": f"{_DENIAL}.start"})
    await send({"type": f"{_DENIAL}.body", "body": response.body})


class _Socket:
    def __init__(self, socket: WebSocket, middleware: Middleware) -> None:
        self._socket = socket
        self._middleware = middleware

    async def receive(self) -> str | None:
        try:
            message = await self._socket.receive()
        except (WebSocketDisconnect, RuntimeError):
            # The client disconnected, or this side closed the socket.
            return None
        if message["type"] == "websocket.disconnect":
            return None
        text = message.get("text")
        if text is None:
            # Binary frames are accepted as text; the reader reports content that it cannot parse.
            text = (message.get("bytes") or b"").decode("utf-8", "replace")
        self._middleware.check_body(text.encode("utf-8", "surrogatepass"))
        return text

    async def send(self, text: str, /) -> None:
        try:
            async with asyncio.timeout(self._middleware.send_seconds):
                await self._socket.send_text(text)
        except (WebSocketDisconnect, RuntimeError, TimeoutError) as error:
            raise ConnectionError("the client disconnected") from error

    async def close(self, code: int = 1000, reason: str = "") -> None:
        if self._socket.application_state is not WebSocketState.DISCONNECTED:
            # A client that has disconnected needs no close frame.
            with suppress(WebSocketDisconnect, RuntimeError):
                await self._socket.close(code, reason)


def error_response(error: FerruleError, request_id: str, body: dict[str, Any]) -> Response:
    """Build the response to an error. `x-should-retry` and `retry-after` tell clients whether to retry."""
    retry_after = getattr(error, "retry_after", None)
    # No client waits for the next day by itself.
    may_retry = error.retryable and (retry_after is None or retry_after <= _SOON_SECONDS)
    headers = {"x-should-retry": "true" if may_retry else "false"}
    if retry_after is not None:
        headers["retry-after"] = str(max(1, round(retry_after)))
    if getattr(error, "ends_connection", False):
        headers["connection"] = "close"
    if error.status == _UNAUTHORIZED:
        headers["www-authenticate"] = _challenge(error)
    if isinstance(error, QuotaError):
        headers |= error.headers
    if isinstance(error, InterruptedAnswerError):
        headers["ferrule-conversation"] = error.conversation
    return Response.json(body, error.status, headers)


def _challenge(error: FerruleError) -> str:
    """The value of `www-authenticate` (RFC 6750). A request without any key learns only how to send one."""
    if error.code == UnauthenticatedError.code:
        return 'Bearer realm="ferrule"'
    description = _NOT_QUOTABLE.sub("'", error.message)
    return f'Bearer realm="ferrule", error="invalid_token", error_description="{description}"'


def _too_large(limit: int) -> TooLargeError:
    return TooLargeError(
        f"the request body is longer than {limit} bytes", hint="Send less, or raise limits.body_bytes."
    )


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] not in ("http.disconnect", "websocket.disconnect"):
        pass


async def _not_found(request: Request) -> AnyResponse:
    raise NotFoundError("no route has this path and method", hint="/openapi.json lists the routes.")


_CATCH_ALL = Route("*", "/{path}", _not_found, ANY, lambda refusal, id: openai_error(refusal))


def _check_head(scope: Scope, middleware: Middleware) -> None:
    query_length = len(scope.get("query_string", b""))
    middleware.check_head(scope["headers"], len(scope.get("raw_path") or scope["path"]) + query_length, query_length)


def _parse_request(scope: Scope) -> Request:
    # The path comes from the request line alone: the Host header does not influence it.
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
    query = _parse_query(scope.get("query_string", b"").decode("latin-1"))
    params = {name: str(value) for name, value in scope.get("path_params", {}).items()}
    peer = (scope.get("client") or ("",))[0]
    id = f"req_{secrets.token_hex(12)}"
    subprotocols = tuple(scope.get("subprotocols", ()))
    return Request(
        scope.get("method", "GET"), scope["path"], id, headers, query, params, peer=peer, subprotocols=subprotocols
    )


def _parse_query(text: str) -> dict[str, str]:
    return dict(parse_qsl(text, keep_blank_values=True))


def _start_message(status: int, headers: Mapping[str, str]) -> Message:
    raw_headers = [(name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in headers.items()]
    return {"type": "http.response.start", "status": status, "headers": raw_headers}
