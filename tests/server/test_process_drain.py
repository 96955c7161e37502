"""Draining: no new requests, active ones complete, and the rest is cancelled with an error of its API."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from ferrule.core.call import ToolCall
from ferrule.core.reply import Reply
from ferrule.errors import DrainingError
from ferrule.schema.tool_decorator import tool
from ferrule.server.process.drain import Drain
from ferrule.sources.functions import Functions
from server.client import Client, ClientResponse, scripted_engine
from server.keys import bearer, config_with_keys, key
from server.watched import BODIES, CHAT, MESSAGES, LogLines, StepEngine, gateway_with_log

KINDS = {CHAT: "server_error", MESSAGES: "error"}


def drain_during(
    path: str, scenario: Callable[[Client, StepEngine], Coroutine[Any, Any, float]], *, stream: bool = True
) -> tuple[ClientResponse, int, LogLines, StepEngine]:
    """Drain while one answer is in progress. `scenario` runs before the drain and returns its time limit."""

    async def run() -> tuple[ClientResponse, int, LogLines, StepEngine]:
        engine = StepEngine(last=3)
        async with gateway_with_log(engine) as (client, lines):
            request = asyncio.ensure_future(client.post(path, {**BODIES[path], "stream": stream}))
            await engine.started.wait()
            seconds = await scenario(client, engine)
            drain = client.gateway.telemetry.drain
            drain.begin()
            cancelled = await drain.wait(seconds)
            assert not drain.active
            return await request, cancelled, lines, engine

    return asyncio.run(run())


@pytest.mark.parametrize("path", [CHAT, MESSAGES])
def test_an_answer_in_progress_completes_during_a_drain(path: str) -> None:
    async def continue_stream(client: Client, engine: StepEngine) -> float:
        for _ in range(3):
            engine.steps.put_nowait(None)
        return 30.0

    answer, cancelled, _, _ = drain_during(path, continue_stream)
    assert (answer.status, cancelled) == (200, 0)
    assert answer.body.count(b"word ") == 3
    assert b"error" not in answer.body


@pytest.mark.parametrize("path", [CHAT, MESSAGES])
def test_a_stream_that_takes_too_long_ends_with_a_retryable_error_of_its_api(path: str) -> None:
    async def stall(client: Client, engine: StepEngine) -> float:
        engine.steps.put_nowait(None)
        while not client.gateway.telemetry.snapshot().values["ferrule_events"].get(("e0",)):
            await asyncio.sleep(0)
        return 0.0

    answer, cancelled, lines, engine = drain_during(path, stall)
    assert answer.status == 200
    assert cancelled == 2
    assert answer.body.count(b"word ") == 1
    last_event = answer.events()[-1]
    assert last_event["error"]["code" if path == CHAT else "type"] == (
        "draining" if path == CHAT else "overloaded_error"
    )
    assert engine.was_closed
    assert lines.with_event("request")[0]["outcome"] == "draining"


@pytest.mark.parametrize("path", [CHAT, MESSAGES])
@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_without_output_is_cancelled_with_an_error_status(path: str, stream: bool) -> None:
    async def do_nothing(client: Client, engine: StepEngine) -> float:
        return 0.0

    answer, cancelled, _, engine = drain_during(path, do_nothing, stream=stream)
    assert (answer.status, cancelled) == (503, 2)
    assert answer.headers["retry-after"] == "1"
    assert answer.headers["x-should-retry"] == "true"
    assert answer.headers["connection"] == "close"
    assert "error" in answer.json()
    assert engine.was_closed


@pytest.mark.parametrize("path", [CHAT, MESSAGES])
def test_new_requests_are_refused_during_a_drain(path: str) -> None:
    async def scenario() -> ClientResponse:
        async with gateway_with_log(scripted_engine("Hello.")) as (client, _):
            client.gateway.telemetry.drain.begin()
            return await client.post(path, BODIES[path])

    answer = asyncio.run(scenario())
    assert answer.status == 503
    assert (answer.headers["connection"], answer.headers["retry-after"]) == ("close", "1")


def test_probes_and_metrics_work_during_a_drain() -> None:
    async def scenario() -> list[int]:
        config = config_with_keys(key("root", admin=True))
        async with gateway_with_log(scripted_engine(), config=config) as (client, _):
            client.gateway.telemetry.drain.begin()
            answers = [await client.get(path, bearer("root")) for path in ("/healthz", "/metrics", "/v1/models")]
            return [answer.status for answer in answers]

    assert asyncio.run(scenario()) == [200, 200, 503]


def test_a_tool_that_runs_too_long_is_cancelled_and_its_lease_released() -> None:
    started = asyncio.Event()

    @tool
    async def sleeps(city: str) -> str:
        """Never ends."""
        started.set()
        await asyncio.sleep(3600)
        return city

    async def scenario() -> tuple[ClientResponse, float, float]:
        reply = Reply.of("I look. ", ToolCall.of("sleeps", {"city": "Paris"}, id="call_1"))
        async with gateway_with_log(scripted_engine(reply), sources=[Functions([sleeps])]) as (client, _):
            request = asyncio.ensure_future(client.post(CHAT, {**BODIES[CHAT], "stream": True}))
            await started.wait()
            (record,) = client.gateway.telemetry.answers
            before = await client.gateway.ledger.load(record.conversation)
            client.gateway.telemetry.drain.begin()
            await client.gateway.telemetry.drain.wait(0.0)
            after = await client.gateway.ledger.load(record.conversation)
            assert before is not None
            assert after is not None
            return await request, before.lease_until, after.lease_until

    answer, before, after = asyncio.run(scenario())
    assert answer.events()[-1]["error"]["code"] == "draining"
    assert after < before


def test_a_request_without_an_answer_is_cancelled_too(monkeypatch: pytest.MonkeyPatch) -> None:
    started = asyncio.Event()

    async def hang(*_: object) -> int:
        started.set()
        await asyncio.sleep(3600)
        return 1

    async def scenario() -> ClientResponse:
        async with gateway_with_log(scripted_engine()) as (client, _):
            monkeypatch.setattr(type(client.gateway), "count_tokens", hang)
            request = asyncio.ensure_future(client.post(f"{MESSAGES}/count_tokens", BODIES[MESSAGES]))
            await started.wait()
            client.gateway.telemetry.drain.begin()
            assert await client.gateway.telemetry.drain.wait(0.0) == 1
            return await request

    answer = asyncio.run(scenario())
    assert (answer.status, json.loads(answer.body)["type"]) == (503, "error")


class IdleConnection:
    """An idle connection."""

    is_idle = True

    def __init__(self, drain: Drain) -> None:
        self._drain = drain

    def cancel(self) -> None:
        self._drain.active.discard(self)


def test_an_idle_connection_is_closed_at_once() -> None:
    async def scenario() -> int:
        drain = Drain()
        drain.active.add(IdleConnection(drain))
        return await drain.wait(3600.0)

    assert asyncio.run(scenario()) == 0


def test_hurry_ends_the_waiting() -> None:
    class Stubborn(IdleConnection):
        is_idle = False

    async def scenario() -> int:
        drain = Drain()
        drain.active.add(Stubborn(drain))
        asyncio.get_running_loop().call_later(0.01, drain.hurry)
        return await drain.wait(3600.0)

    assert asyncio.run(scenario()) == 1


def test_the_draining_error_is_retryable_and_closes_the_connection() -> None:
    assert (DrainingError.status, DrainingError.retryable, DrainingError.ends_connection) == (503, True, True)
