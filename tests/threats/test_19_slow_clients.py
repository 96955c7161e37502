"""Row 19: who sends slowly, reads slowly or answers slowly is left.

Heads and sockets: tests/server/test_limits_connection. The same against the whole program, with and without Envoy in
front of it: tests/live/test_gateway_hostile and `scripts/long hostile`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from ferrule.core.event import Event, TextDelta
from ferrule.core.request import ToolCallRequest
from ferrule.engines.engine import ALL_CHOICES, Engine, Traits
from ferrule.server.config.config import Limits
from server.client import Client, gateway_of
from server.keys import bearer, key, keyed
from threats.house import ANN, CHAT, EVERYTHING, USER

QUICK = {"body_seconds": 0.2, "send_seconds": 0.2, "first_seconds": 0.2, "between_seconds": 0.2, "total_seconds": 1.0}


class Slow(Engine):
    """Says so many words at once, and then one after each pause."""

    traits = Traits(name="slow", honours=ALL_CHOICES)

    def __init__(self, words: int, pause: float) -> None:
        self.words, self.pause, self.ended = words, pause, asyncio.Event()

    async def stream(self, request: ToolCallRequest) -> AsyncGenerator[Event, None]:
        try:
            for at in range(1_000_000):
                if at >= self.words:
                    await asyncio.sleep(self.pause)
                yield TextDelta("word " * 200)
        finally:
            self.ended.set()

    async def close(self) -> None:
        return


async def asked(client: Client, receive: Any, send: Any, body: int = 0) -> None:
    headers = {**client.headers, **bearer(ANN), **({"content-length": str(body)} if body else {})}
    scope = {
        **{"type": "http", "http_version": "1.1", "method": "POST", "path": CHAT, "raw_path": CHAT.encode()},
        **{"root_path": "", "query_string": b"", "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 1)},
        **{"scheme": "http", "asgi": {"version": "3.0"}},
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }
    async with asyncio.timeout(60):
        await client.app(scope, receive, send)


def config(**limits: Any) -> Any:
    return keyed(key(ANN, **EVERYTHING), limits=Limits(**{**QUICK, **limits}))


@pytest.mark.parametrize("pause", [0.01, 60.0])
def test_a_body_that_drips_or_stops_is_not_waited_for(pause: float) -> None:
    async def scenario() -> int:
        async with gateway_of(Slow(1, 0.0), config=config()) as client:
            sent: list[Any] = []

            async def receive() -> dict[str, Any]:
                await asyncio.sleep(pause)
                return {"type": "http.request", "body": b" ", "more_body": True}

            async def send(message: Any) -> None:
                sent.append(message)

            await asked(client, receive, send, body=1000)
            assert client.gateway.watch.requests == set()
            return sent[0]["status"]

    assert asyncio.run(scenario()) == 408


def test_a_reader_that_stops_is_left_and_the_engine_with_it() -> None:
    async def scenario() -> bool:
        engine = Slow(1_000_000, 0.0)
        async with gateway_of(engine, config=config()) as client:
            body = [{"type": "http.request", "body": _body(stream=True), "more_body": False}]
            sent = 0

            async def receive() -> dict[str, Any]:
                return body.pop() if body else await asyncio.get_running_loop().create_future()

            async def send(message: Any) -> None:
                nonlocal sent
                sent += 1
                if sent > 3:
                    await asyncio.sleep(3600)

            await asked(client, receive, send)
            async with asyncio.timeout(30):
                await engine.ended.wait()
            return client.gateway.watch.requests == set()

    assert asyncio.run(scenario())


@pytest.mark.parametrize("words, pause", [(0, 60.0), (2, 60.0), (0, 0.05)], ids=["first", "between", "in all"])
@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_has_a_time_for_its_first_word_for_each_and_for_all(words: int, pause: float, stream: bool) -> None:
    async def scenario() -> tuple[int, bytes]:
        engine = Slow(words, pause)
        async with gateway_of(engine, config=config()) as client:
            answer = await client.post(CHAT, {"model": "e0", "messages": USER, "stream": stream}, bearer(ANN))
            async with asyncio.timeout(30):
                await engine.ended.wait()
            return answer.status, answer.body

    status, body = asyncio.run(scenario())
    assert b"timeout" in body
    assert status == (504 if not stream or (not words and pause > 1) else 200)


def test_when_everybody_waits_others_are_told_to_come_back_and_leave_can_still_be_given() -> None:
    async def scenario() -> tuple[list[int], str, int, int]:
        engine = Slow(0, 60.0)
        limits = {"streams": 3, "first_seconds": 60.0, "between_seconds": 60.0, "total_seconds": 60.0}
        async with gateway_of(engine, config=config(**limits)) as client:
            waiting = [asyncio.ensure_future(client.post(CHAT, {"messages": USER}, bearer(ANN))) for _ in range(3)]
            while len(client.gateway.watch.answers) < 3:
                await asyncio.sleep(0.001)
            refused = await client.post(CHAT, {"messages": USER}, bearer(ANN))
            approvals = await client.get("/v1/approvals", bearer(ANN))
            health = await client.get("/healthz")
            for one in waiting:
                one.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
            again = client.gateway.watch.answers
            assert not again
            return [refused.status], refused.headers["retry-after"], approvals.status, health.status

    assert asyncio.run(scenario()) == ([429], "1", 200, 200)


def _body(**more: Any) -> bytes:
    import json

    return json.dumps({"model": "e0", "messages": USER, **more}).encode()
