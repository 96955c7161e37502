"""A provider on loopback that answers as it is told to, also badly, and keeps what it was asked."""

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
class Answer:
    """What one request gets. `stalls` says nothing more and keeps the line open; `holds_head` not even a status.

    `drops` cuts the line in the middle of the answer.
    """

    chunks: tuple[bytes, ...] = ()
    status: int = 200
    stalls: bool = False
    holds_head: bool = False
    drops: bool = False


@dataclass(frozen=True)
class Asked:
    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]


@dataclass
class Provider:
    """`hung_up` is set when the client closes a connection on which it was still being answered."""

    answers: list[Answer]
    asked: list[Asked] = field(default_factory=list)
    hung_up: asyncio.Event = field(default_factory=asyncio.Event)
    url: str = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(Asked(request.path, request.headers, await request.json() if request.can_read_body else {}))
        if not self.answers:
            return web.json_response({"error": {"message": "nothing more was prepared"}}, status=500)
        answer = self.answers.pop(0)
        response = web.StreamResponse(status=answer.status)
        try:
            if answer.holds_head:
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
            self.hung_up.set()
            raise
        await response.write_eof()
        return response


@asynccontextmanager
async def provider(*answers: Answer) -> AsyncGenerator[Provider, None]:
    served = Provider(list(answers))
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", served.handle)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    served.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield served
    finally:
        await runner.cleanup()


def sse(*objects: Mapping[str, Any], is_named: bool = False, done: bool = False) -> Answer:
    """A stream of server-sent events, named by their type where the API does that."""
    chunks = [
        (f"event: {data['type']}\n" if is_named else "").encode() + f"data: {json.dumps(data)}\n\n".encode()
        for data in objects
    ]
    return Answer((*chunks, *([b"data: [DONE]\n\n"] if done else [])))


def ndjson(*objects: Mapping[str, Any]) -> Answer:
    return Answer(tuple(json.dumps(data).encode() + b"\n" for data in objects))


def whole(body: object, status: int = 200) -> Answer:
    """An answer that is not streamed."""
    return Answer((json.dumps(body).encode(),), status)


def chunk(delta: Mapping[str, Any], finish: str | None = None, **more: Any) -> dict[str, Any]:
    """A piece of a streamed chat completion."""
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more}


def call(arguments: object, name: str | None = "get_weather", id: str | None = "c1", index: int = 0) -> dict[str, Any]:
    """A delta with a call, or more of one."""
    function = {"arguments": arguments, **({"name": name} if name else {})}
    return {"tool_calls": [{"index": index, **({"id": id} if id else {}), "function": function}]}


def completion(message: Mapping[str, Any], finish: str = "tool_calls", used: int = 5) -> Answer:
    """A chat completion that is not streamed."""
    usage = {"prompt_tokens": 10, "completion_tokens": used}
    return whole({"choices": [{"index": 0, "message": message, "finish_reason": finish}], "usage": usage})


def generated(
    make: Callable[[str], Engine], answers: Sequence[Answer], request: ToolCallRequest
) -> tuple[Reply, list[Asked]]:
    """The whole answer, and what the provider was asked for it."""

    async def work() -> tuple[Reply, list[Asked]]:
        async with provider(*answers) as served, make(served.url) as engine:
            return await engine.generate_with_tools(request), served.asked

    return asyncio.run(work())


def streamed(make: Callable[[str], Engine], answers: Sequence[Answer], request: ToolCallRequest) -> list[Event]:
    async def work() -> list[Event]:
        async with provider(*answers) as served, make(served.url) as engine:
            return [event async for event in engine.stream(request)]

    return asyncio.run(work())
