"""Routes on ASGI: the one owner of Starlette. Reads bodies within limits, sends answers, notices readers that left.

Every error becomes the body that the route's clients read, with a request id; nothing of a stack goes out.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable, Mapping
from contextlib import aclosing, suppress
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.routing import Route as HttpRoute
from starlette.routing import WebSocketRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from ferrule.dialects.openai_error import error_body as openai_error
from ferrule.errors import FerruleError, NotFoundError, TooLargeError, TooSlowError
from ferrule.server.cleanup import ended
from ferrule.server.http import ANY, SHORT, Answer, Asked, Front, Route, SocketRoute, Stalled, Streamed, Whole
from ferrule.server.response_writer import Outlet

_REQUEST_ID = "x-request-id"
_POLICY_VIOLATION, _TRY_AGAIN_LATER = 1008, 1013
_MOST_DIGITS = 18


def asgi(routes: Iterable[Route], sockets: Iterable[SocketRoute], front: Front) -> ASGIApp:
    """The application. Who has no key is told the same of what has no route as of what has one."""
    made: list[Any] = [HttpRoute(one.path, _Endpoint(one, front), methods=[one.method]) for one in routes]
    made += [WebSocketRoute(one.path, _SocketEndpoint(one, front)) for one in sockets]
    # The last: whatever no route takes, by its path or by its method. So nobody is sent elsewhere for a slash either.
    made.append(HttpRoute("/{path:path}", _Endpoint(_NOWHERE, front)))
    return Starlette(routes=made)


class _Endpoint:
    """One route as ASGI."""

    def __init__(self, route: Route, front: Front) -> None:
        self._route = route
        self._front = front

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        asked = _asked(scope)
        try:
            _check_head(scope, self._front)
            async with self._front.admitted(asked, self._route.scope) as known:
                body = await self._body(known, receive)
                if len(body) <= SHORT:
                    self._front.check_body(body)
                else:
                    await asyncio.to_thread(self._front.check_body, body)
                answer = await self._answered(known, body, receive)
                if answer is not None:
                    await self._send(answer, asked, receive, send)
        except Stalled:
            # Nothing can be said to who does not read; the server closes what was not ended.
            return
        except FerruleError as refusal:
            await self._send(
                refused(refusal, asked.id, self._route.error_body(refusal, asked.id)), asked, receive, send
            )

    async def _body(self, asked: Asked, receive: Receive) -> bytes:
        most = self._front.body_bytes
        told = asked.headers.get("content-length", "0")
        if not told.isascii() or not told.isdigit() or len(told) > _MOST_DIGITS or int(told) > most:
            raise _too_large(most)
        pieces: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self._front.body_seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return b""
                    pieces.append(message.get("body", b""))
                    size += len(pieces[-1])
                    if size > most:
                        raise _too_large(most)
                    if not message.get("more_body", False):
                        return b"".join(pieces)
        except TimeoutError as late:
            raise TooSlowError("the body did not arrive in time", hint="Send it at once.") from late

    async def _answered(self, asked: Asked, body: bytes, receive: Receive) -> Answer | None:
        """What the handler gives; None when the client left before."""
        work = asyncio.ensure_future(self._route.handler(replace(asked, body=body)))
        left = asyncio.ensure_future(_disconnected(receive))
        try:
            await asyncio.wait({work, left}, return_when=asyncio.FIRST_COMPLETED)
            return work.result() if work.done() else None
        finally:
            left.cancel()
            if not work.done():
                await ended(work)

    async def _send(self, answer: Answer, asked: Asked, receive: Receive, send: Send) -> None:
        headers = {"content-type": answer.media_type, _REQUEST_ID: asked.id, "request-id": asked.id, **answer.headers}
        if isinstance(answer, Whole):
            headers["content-length"] = str(len(answer.body))
            await send(_start(answer.status, headers))
            await send({"type": "http.response.body", "body": answer.body})
            return
        headers |= {"cache-control": "no-cache", "x-accel-buffering": "no"}
        outlet = Outlet(send, self._front.send_seconds)
        sending = asyncio.ensure_future(self._pieces(answer, headers, outlet))
        beside = [asyncio.ensure_future(_disconnected(receive))]
        if answer.keep_alive:
            beside.append(asyncio.ensure_future(outlet.kept_alive(answer.keep_alive, answer.keep_alive_seconds)))
        try:
            await asyncio.wait({sending, *beside}, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
        finally:
            await ended(sending, *beside)
            outlet.close()

    async def _pieces(self, answer: Streamed, headers: Mapping[str, str], outlet: Outlet) -> None:
        async with aclosing(answer.pieces) as pieces:
            await outlet.start(_start(answer.status, headers))
            async for piece in pieces:
                await outlet.send(piece)
            await outlet.end()


class _SocketEndpoint:
    def __init__(self, route: SocketRoute, front: Front) -> None:
        self._route = route
        self._front = front

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        asked = _asked(scope)
        socket = WebSocket(scope, receive, send)
        try:
            _check_head(scope, self._front)
            async with self._front.admitted(asked, self._route.scope) as known:
                is_offered = self._route.protocol in known.subprotocols
                await socket.accept(self._route.protocol if is_offered else None)
                await self._route.handler(known, _Socket(socket, self._front))
        except FerruleError as refusal:
            if socket.application_state is not WebSocketState.DISCONNECTED:
                code = _TRY_AGAIN_LATER if getattr(refusal, "ends_connection", False) else _POLICY_VIOLATION
                await socket.close(code, refusal.code)


class _Socket:
    def __init__(self, socket: WebSocket, front: Front) -> None:
        self._socket = socket
        self._front = front

    async def receive(self) -> str | None:
        try:
            message = await self._socket.receive()
        except (WebSocketDisconnect, RuntimeError):
            # Gone, or closed by us.
            return None
        if message["type"] == "websocket.disconnect":
            return None
        text = message.get("text")
        if text is None:
            # Bytes are read as text too; what they mean is found out by whoever reads it.
            text = (message.get("bytes") or b"").decode("utf-8", "replace")
        self._front.check_body(text.encode("utf-8", "surrogatepass"))
        return text

    async def send(self, text: str, /) -> None:
        try:
            async with asyncio.timeout(self._front.send_seconds):
                await self._socket.send_text(text)
        except (WebSocketDisconnect, RuntimeError, TimeoutError) as gone:
            raise ConnectionError("the other side is gone") from gone

    async def close(self, code: int = 1000, reason: str = "") -> None:
        if self._socket.application_state is not WebSocketState.DISCONNECTED:
            # Who is gone needs no closing.
            with suppress(WebSocketDisconnect, RuntimeError):
                await self._socket.close(code, reason)


def refused(refusal: FerruleError, request_id: str, body: dict[str, Any]) -> Whole:
    """An error as an answer. Clients try again by themselves where that can help, and only there."""
    headers = {"x-should-retry": "true" if refusal.retryable else "false"}
    wait = getattr(refusal, "retry_after", None)
    if wait is not None:
        headers["retry-after"] = str(max(1, round(wait)))
    if getattr(refusal, "ends_connection", False):
        headers["connection"] = "close"
    return Whole.of(body, refusal.status, headers)


def _too_large(most: int) -> TooLargeError:
    return TooLargeError(f"the body is longer than {most} bytes", hint="Send less, or raise the limit.")


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] not in ("http.disconnect", "websocket.disconnect"):
        pass


async def _nothing(asked: Asked) -> Answer:
    raise NotFoundError("there is nothing here", hint="See /openapi.json for what there is.")


_NOWHERE = Route("*", "/{path}", _nothing, ANY, lambda refusal, id: openai_error(refusal))


def _check_head(scope: Scope, front: Front) -> None:
    query = len(scope.get("query_string", b""))
    front.check_head(scope["headers"], len(scope.get("raw_path") or scope["path"]) + query, query)


def _asked(scope: Scope) -> Asked:
    # The path is the server's own word: whatever Host says does not enter it.
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
    query = _query(scope.get("query_string", b"").decode("latin-1"))
    params = {name: str(value) for name, value in scope.get("path_params", {}).items()}
    peer = (scope.get("client") or ("",))[0]
    id = f"req_{secrets.token_hex(12)}"
    offered = tuple(scope.get("subprotocols", ()))
    return Asked(scope.get("method", "GET"), scope["path"], id, headers, query, params, peer=peer, subprotocols=offered)


def _query(text: str) -> dict[str, str]:
    return dict(parse_qsl(text, keep_blank_values=True))


def _start(status: int, headers: Mapping[str, str]) -> Message:
    spelled = [(name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in headers.items()]
    return {"type": "http.response.start", "status": status, "headers": spelled}
