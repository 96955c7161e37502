"""A client that disconnects leaks no memory: nothing waits for the garbage collector."""

from __future__ import annotations

import asyncio
import gc
import json
import weakref
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager
from typing import Any

import pytest

from ferrule.core.event import Event, TextDelta
from ferrule.core.request import ToolCallRequest
from ferrule.engines.engine import ALL_CHOICES, Engine, Traits
from ferrule.server.asgi import cancel_and_wait
from server.client import gateway_of

CHAT = "/v1/chat/completions"


class Answer:
    """An object that an engine holds during an answer."""


class EndlessEngine(Engine):
    """Generates without end; `live_answers` are the answers still in memory."""

    traits = Traits(name="holding", honours=ALL_CHOICES)

    def __init__(self, pause: float) -> None:
        self.live_answers: weakref.WeakSet[Answer] = weakref.WeakSet()
        self._pause = pause

    async def stream_request(self, request: ToolCallRequest) -> AsyncGenerator[Event, None]:
        answer = Answer()
        self.live_answers.add(answer)
        for at in range(1_000_000):
            yield TextDelta("word ")
            # After a few events it sleeps, so that the disconnect hits it inside its own frames.
            await asyncio.sleep(self._pause if at > 5 else 0)
        assert answer

    async def close(self) -> None:
        return


@contextmanager
def without_collection() -> Generator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.mark.parametrize("reads", [3, 1_000], ids=["in mid-piece", "between pieces"])
def test_a_client_that_disconnects_from_a_stream_leaks_no_memory(reads: int) -> None:
    engine = EndlessEngine(3600.0)

    async def disconnect(client: Any) -> None:
        disconnected = asyncio.Event()
        body = [json.dumps({"messages": [{"role": "user", "content": "Hi."}], "stream": True}).encode()]
        message_count = 0

        async def receive() -> dict[str, Any]:
            if body:
                return {"type": "http.request", "body": body.pop(), "more_body": False}
            await disconnected.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            nonlocal message_count
            message_count += 1
            asyncio.get_running_loop().call_later(0.05, disconnected.set)
            if message_count > reads:
                await asyncio.sleep(3600)

        scope = {
            **{"type": "http", "http_version": "1.1", "method": "POST", "path": CHAT, "raw_path": CHAT.encode()},
            **{"root_path": "", "query_string": b"", "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 1)},
            **{"scheme": "http", "asgi": {"version": "3.0"}, "headers": [(b"host", b"localhost")]},
        }
        await client.app(scope, receive, send)

    async def scenario() -> int:
        async with gateway_of(engine) as client:
            for _ in range(5):
                await disconnect(client)
            await asyncio.sleep(0)
            return len(engine.live_answers)

    with without_collection():
        assert asyncio.run(scenario()) == 0


def test_a_client_that_disconnects_before_the_answer_leaks_no_memory() -> None:
    engine = EndlessEngine(3600.0)

    async def scenario() -> int:
        async with gateway_of(engine) as client:
            for _ in range(5):
                disconnect = asyncio.Event()
                asyncio.get_running_loop().call_later(0.05, disconnect.set)
                await client.request(
                    "POST", CHAT, {"messages": [{"role": "user", "content": "Hi."}]}, disconnect=disconnect
                )
            await asyncio.sleep(0)
            return len(engine.live_answers)

    with without_collection():
        assert asyncio.run(scenario()) == 0


def test_cancel_and_wait_ends_failed_cancelled_and_finished_tasks() -> None:
    async def scenario() -> list[bool]:
        async def fail() -> None:
            raise ValueError("it broke")

        async def sleep() -> None:
            await asyncio.sleep(3600)

        tasks = [asyncio.ensure_future(work()) for work in (fail, sleep)]
        done = asyncio.ensure_future(asyncio.sleep(0))
        await asyncio.sleep(0)
        await cancel_and_wait(*tasks, done)
        return [task.done() for task in (*tasks, done)]

    assert asyncio.run(scenario()) == [True] * 3
