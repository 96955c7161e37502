"""Whoever leaves an answer takes it with him: nothing of it waits until Python looks for rings."""

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
from ferrule.server.cleanup import ended
from server.client import gateway_of

CHAT = "/v1/chat/completions"


class Answer:
    """What an engine holds for as long as it answers."""


class Holding(Engine):
    """Goes on for ever; `held` are the answers that are still there."""

    traits = Traits(name="holding", honours=ALL_CHOICES)

    def __init__(self, pause: float) -> None:
        self.held: weakref.WeakSet[Answer] = weakref.WeakSet()
        self._pause = pause

    async def stream(self, request: ToolCallRequest) -> AsyncGenerator[Event, None]:
        answer = Answer()
        self.held.add(answer)
        for at in range(1_000_000):
            yield TextDelta("word ")
            # After a while it is waited for, and so left in the middle of its own stack.
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
def test_a_client_that_leaves_a_stream_leaves_nothing_behind(reads: int) -> None:
    engine = Holding(3600.0)

    async def left(client: Any) -> None:
        gone = asyncio.Event()
        body = [json.dumps({"messages": [{"role": "user", "content": "Hi."}], "stream": True}).encode()]
        sent = 0

        async def receive() -> dict[str, Any]:
            if body:
                return {"type": "http.request", "body": body.pop(), "more_body": False}
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            nonlocal sent
            sent += 1
            asyncio.get_running_loop().call_later(0.05, gone.set)
            if sent > reads:
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
                await left(client)
            await asyncio.sleep(0)
            return len(engine.held)

    with without_collection():
        assert asyncio.run(scenario()) == 0


def test_a_client_that_leaves_before_the_answer_leaves_nothing_behind() -> None:
    engine = Holding(3600.0)

    async def scenario() -> int:
        async with gateway_of(engine) as client:
            for _ in range(5):
                leaves = asyncio.Event()
                asyncio.get_running_loop().call_later(0.05, leaves.set)
                await client.ask("POST", CHAT, {"messages": [{"role": "user", "content": "Hi."}]}, leaves=leaves)
            await asyncio.sleep(0)
            return len(engine.held)

    with without_collection():
        assert asyncio.run(scenario()) == 0


def test_tasks_that_are_ended_are_over_whichever_way_they_ended() -> None:
    async def scenario() -> list[bool]:
        async def failing() -> None:
            raise ValueError("it broke")

        async def waiting() -> None:
            await asyncio.sleep(3600)

        tasks = [asyncio.ensure_future(work()) for work in (failing, waiting)]
        done = asyncio.ensure_future(asyncio.sleep(0))
        await asyncio.sleep(0)
        await ended(*tasks, done)
        return [task.done() for task in (*tasks, done)]

    assert asyncio.run(scenario()) == [True] * 3
