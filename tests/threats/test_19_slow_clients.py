"""Row 19: slow senders, slow readers and slow engines are disconnected.

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
from ferrule.server.config.config import GatewayLimits
from server.client import Client, gateway_of
from server.keys import bearer, config_with_keys, key
from threats.gateway_fixture import ANN, CHAT, EVERYTHING, USER
from waiting import PATIENCE

QUICK = {"body_seconds": 0.2, "send_seconds": 0.2, "first_seconds": 0.2, "between_seconds": 0.2, "total_seconds": 1.0}


class SlowEngine(Engine):
    """Generates `words` words at once, and then one after each pause."""

    traits = Traits(name="slow", honours=ALL_CHOICES)

    def __init__(self, words: int, pause: float) -> None:
        self.words, self.pause, self.ended = words, pause, asyncio.Event()

    async def stream_request(self, request: ToolCallRequest) -> AsyncGenerator[Event, None]:
        try:
            for at in range(1_000_000):
                if at >= self.words:
                    await asyncio.sleep(self.pause)
                yield TextDelta("word " * 200)
        finally:
            self.ended.set()

    async def close(self) -> None:
        return


async def send_request(client: Client, receive: Any, send: Any, body: int = 0) -> None:
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
    return config_with_keys(key(ANN, **EVERYTHING), limits=GatewayLimits(**{**QUICK, **limits}))


@pytest.mark.parametrize("pause", [0.01, 60.0])
def test_a_slow_or_stalled_body_times_out(pause: float) -> None:
    async def scenario() -> int:
        async with gateway_of(SlowEngine(1, 0.0), config=config()) as client:
            messages: list[Any] = []

            async def receive() -> dict[str, Any]:
                await asyncio.sleep(pause)
                return {"type": "http.request", "body": b" ", "more_body": True}

            async def send(message: Any) -> None:
                messages.append(message)

            await send_request(client, receive, send, body=1000)
            assert client.gateway.telemetry.requests == set()
            return messages[0]["status"]

    assert asyncio.run(scenario()) == 408


def test_a_client_that_stops_reading_is_disconnected_and_its_engine_stopped() -> None:
    async def scenario() -> bool:
        engine = SlowEngine(1_000_000, 0.0)
        async with gateway_of(engine, config=config()) as client:
            body = [{"type": "http.request", "body": _body(stream=True), "more_body": False}]
            message_count = 0

            async def receive() -> dict[str, Any]:
                return body.pop() if body else await asyncio.get_running_loop().create_future()

            async def send(message: Any) -> None:
                nonlocal message_count
                message_count += 1
                if message_count > 3:
                    await asyncio.sleep(3600)

            await send_request(client, receive, send)
            async with asyncio.timeout(PATIENCE):
                await engine.ended.wait()
            return client.gateway.telemetry.requests == set()

    assert asyncio.run(scenario())


@pytest.mark.parametrize("words, pause", [(0, 60.0), (2, 60.0), (0, 0.05)], ids=["first", "between", "in all"])
@pytest.mark.parametrize("stream", [False, True])
def test_the_first_event_each_pause_and_the_whole_answer_have_a_timeout(words: int, pause: float, stream: bool) -> None:
    async def scenario() -> tuple[int, bytes]:
        engine = SlowEngine(words, pause)
        async with gateway_of(engine, config=config()) as client:
            answer = await client.post(CHAT, {"model": "e0", "messages": USER, "stream": stream}, bearer(ANN))
            async with asyncio.timeout(PATIENCE):
                await engine.ended.wait()
            return answer.status, answer.body

    status, body = asyncio.run(scenario())
    assert b"timeout" in body
    assert status == (504 if not stream or (not words and pause > 1) else 200)


def test_when_all_slots_are_used_requests_get_retry_after_and_approvals_still_work() -> None:
    async def scenario() -> tuple[list[int], str, int, int]:
        engine = SlowEngine(0, 60.0)
        limits = {"streams": 3, "first_seconds": 60.0, "between_seconds": 60.0, "total_seconds": 60.0}
        async with gateway_of(engine, config=config(**limits)) as client:
            requests = [asyncio.ensure_future(client.post(CHAT, {"messages": USER}, bearer(ANN))) for _ in range(3)]
            while len(client.gateway.telemetry.answers) < 3:
                await asyncio.sleep(0.001)
            rejection = await client.post(CHAT, {"messages": USER}, bearer(ANN))
            approvals = await client.get("/v1/approvals", bearer(ANN))
            health = await client.get("/healthz")
            for one in requests:
                one.cancel()
            await asyncio.gather(*requests, return_exceptions=True)
            answers = client.gateway.telemetry.answers
            assert not answers
            return [rejection.status], rejection.headers["retry-after"], approvals.status, health.status

    assert asyncio.run(scenario()) == ([429], "1", 200, 200)


def _body(**more: Any) -> bytes:
    import json

    return json.dumps({"model": "e0", "messages": USER, **more}).encode()
