"""A test provider on loopback that sends prepared responses, also faulty ones, and records requests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from ferrule import Event, Reply, ToolCallRequest
from ferrule.engines.engine import Engine
from ferrule.engines.http import Deadlines

QUICK = Deadlines(connect=2, first=5, between=5, total=20, tries=3, pause=0.001)
IMPATIENT = Deadlines(connect=2, first=0.2, between=0.2, total=20, tries=1)


@dataclass(frozen=True)
class CannedResponse:
    """The response to one request. `stalls` sends no more and keeps the connection open; `delays_status` sends nothing.

    `drops` aborts the connection in the middle of the response.
    """

    chunks: tuple[bytes, ...] = ()
    status: int = 200
    stalls: bool = False
    delays_status: bool = False
    drops: bool = False


@dataclass(frozen=True)
class ReceivedRequest:
    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]


@dataclass
class Provider:
    """`disconnected` is set when the client closes a connection before the response has ended."""

    responses: list[CannedResponse]
    requests: list[ReceivedRequest] = field(default_factory=list)
    disconnected: asyncio.Event = field(default_factory=asyncio.Event)
    url: str = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(
            ReceivedRequest(request.path, request.headers, await request.json() if request.can_read_body else {})
        )
        if not self.responses:
            return web.json_response({"error": {"message": "no response is left"}}, status=500)
        answer = self.responses.pop(0)
        response = web.StreamResponse(status=answer.status)
        try:
            if answer.delays_status:
                await asyncio.Event().wait()
            await response.prepare(request)
            for chunk in answer.chunks:
                await response.write(chunk)
            if answer.drops and request.transport:
                request.transport.abort()
                return response
            if answer.stalls:
                await asyncio.Event().wait()
        except (asyncio.CancelledError, ConnectionResetError):
            self.disconnected.set()
            raise
        await response.write_eof()
        return response


@asynccontextmanager
async def provider(*answers: CannedResponse) -> AsyncGenerator[Provider, None]:
    server = Provider(list(answers))
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.handle)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield server
    finally:
        await runner.cleanup()


def sse(*objects: Mapping[str, Any], is_named: bool = False, done: bool = False) -> CannedResponse:
    """A stream of server-sent events, named by their type where the API does that."""
    chunks = [
        (f"event: {data['type']}\n" if is_named else "").encode() + f"data: {json.dumps(data)}\n\n".encode()
        for data in objects
    ]
    return CannedResponse((*chunks, *([b"data: [DONE]\n\n"] if done else [])))


def ndjson(*objects: Mapping[str, Any]) -> CannedResponse:
    return CannedResponse(tuple(json.dumps(data).encode() + b"\n" for data in objects))


def json_response(body: object, status: int = 200) -> CannedResponse:
    """A response that is not streamed."""
    return CannedResponse((json.dumps(body).encode(),), status)


def chunk(delta: Mapping[str, Any], finish: str | None = None, **more: Any) -> dict[str, Any]:
    """A piece of a streamed chat completion."""
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more}


def call(arguments: object, name: str | None = "get_weather", id: str | None = "c1", index: int = 0) -> dict[str, Any]:
    """A delta with a call, or more of one."""
    function = {"arguments": arguments, **({"name": name} if name else {})}
    return {"tool_calls": [{"index": index, **({"id": id} if id else {}), "function": function}]}


def chat_completion(
    message: Mapping[str, Any], finish: str = "tool_calls", completion_tokens: int = 5
) -> CannedResponse:
    """A chat completion that is not streamed."""
    usage = {"prompt_tokens": 10, "completion_tokens": completion_tokens}
    return json_response({"choices": [{"index": 0, "message": message, "finish_reason": finish}], "usage": usage})


def generate(
    make: Callable[[str], Engine], answers: Sequence[CannedResponse], request: ToolCallRequest
) -> tuple[Reply, list[ReceivedRequest]]:
    """Generate a reply; return it with the requests that the provider received."""

    async def work() -> tuple[Reply, list[ReceivedRequest]]:
        async with provider(*answers) as server, make(server.url) as engine:
            return await engine.generate_with_tools(request), server.requests

    return asyncio.run(work())


def stream_events(
    make: Callable[[str], Engine], answers: Sequence[CannedResponse], request: ToolCallRequest
) -> list[Event]:
    async def work() -> list[Event]:
        async with provider(*answers) as server, make(server.url) as engine:
            return [event async for event in engine.stream(request)]

    return asyncio.run(work())
