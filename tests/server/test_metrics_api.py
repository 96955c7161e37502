"""`/metrics`: what requests, answers, calls and engines leave behind in it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ferrule.core.call import ToolCall
from ferrule.core.event import FinishReason, Usage
from ferrule.core.receipt import How, Receipt
from ferrule.core.reply import Reply
from ferrule.engines.engine import Engine
from ferrule.errors import EngineUnavailableError
from ferrule.schema.tool_decorator import tool
from ferrule.server.config.config import Config, EngineConfig, ModelConfig
from ferrule.server.observability.metrics import Counts
from ferrule.server.observability.metrics_api import counts_shared
from ferrule.server.observability.metrics_shared import Shared
from ferrule.sources.functions import Functions
from server.client import Client, gateway_of, speaking
from server.keys import bearer, key, keyed
from server.test_router import Failing
from server.watched import BODIES, CHAT, MESSAGES, Stepping

CALL = ToolCall.of("weather", {"city": "Paris"}, id="call_1")
REPAIRED = replace(CALL, receipt=Receipt(how=How.REPAIRED, engine="fake", path="fake"))


@tool
def weather(city: str) -> str:
    """The weather in a city."""
    return f"sunny in {city}"


@tool
def stumbles() -> str:
    """Never works."""
    raise RuntimeError


@tool(side_effects=True)
def order(item: str) -> str:
    """Orders something."""
    return f"ordered {item}"


Read = dict[str, dict[tuple[str, ...], float]]


async def read(client: Client, headers: dict[str, str] | None = None) -> Read:
    """Values by sample and the values of its labels, in the order of their names."""
    answer = await client.get("/metrics", headers)
    assert answer.status == 200
    found: Read = {}
    for family in text_string_to_metric_families(answer.body.decode()):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(value for _, value in sorted(sample.labels.items()))] = sample.value
    return found


def after(*asked: tuple[str, dict[str, Any]], engines: tuple[Engine, ...], own: bool = False) -> Read:
    async def scenario() -> Read:
        sources = [Functions([weather, order])] if own else []
        async with gateway_of(*engines, sources=sources, config=_one_model(len(engines))) as client:
            for path, body in asked:
                await client.post(path, body)
            return await read(client)

    return asyncio.run(scenario())


def _one_model(engines: int) -> Config:
    named = tuple(EngineConfig(name=f"e{at}", use=f"e{at}") for at in range(engines))
    return Config(engines=named, models=(ModelConfig(name="m", engines=tuple(one.name for one in named)),))


@pytest.mark.parametrize("path", [CHAT, MESSAGES])
@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_is_counted_with_its_tokens_and_times(path: str, stream: bool) -> None:
    reply = Reply(Reply.of("Hello.").parts, finish=FinishReason.STOP, usage=Usage(7, 5))
    found = after((path, {**BODIES[path], "stream": stream}), engines=(speaking(reply),))
    assert found["ferrule_requests_total"] == {(path, "m", "ok"): 1}
    assert found["ferrule_tokens_total"] == {("completion", "m"): 5, ("prompt", "m"): 7}
    assert found["ferrule_events_total"] == {("m",): 3}
    assert found["ferrule_answer_seconds_count"] == found["ferrule_first_event_seconds_count"] == {("m",): 1}
    assert found["ferrule_answers_open"] == {(): 0}


def test_names_that_clients_make_up_make_no_series() -> None:
    asked = [(CHAT, {**BODIES[CHAT], "model": f"made-up-{at}"}) for at in range(20)]
    tools = [{"type": "function", "function": {"name": f"tool_{at}"}} for at in range(20)]
    calls = [(CHAT, {**BODIES[CHAT], "tools": [one]}) for one in tools]
    replies = [Reply.of(ToolCall.of(f"tool_{at}", {}, id="c")) for at in range(20)]
    found = after(*asked, *calls, engines=(speaking(*["Hello."] * 20, *replies),))
    assert found["ferrule_requests_total"] == {(CHAT, "m", "ok"): 40}
    assert found["ferrule_calls_total"] == {("validated", "complete", "caller"): 20}


def test_paths_that_clients_make_up_make_one_series() -> None:
    async def scenario() -> Read:
        async with gateway_of(speaking()) as client:
            for at in range(20):
                await client.get(f"/nowhere/{at}")
                await client.get(f"/v1/models/{at}")
            return await read(client)

    found = asyncio.run(scenario())
    assert found["ferrule_requests_total"] == {
        ("other", "", "not_found"): 20,
        ("/v1/models/{id}", "", "not_found"): 20,
    }


def test_calls_are_counted_by_tool_and_by_how_they_were_guaranteed() -> None:
    found = after((CHAT, BODIES[CHAT]), engines=(speaking(Reply.of(REPAIRED), "Sunny."),), own=True)
    assert found["ferrule_calls_total"] == {("repaired", "complete", "weather"): 1}
    assert found["ferrule_repairs_total"] == {("m",): 1}
    assert found["ferrule_tool_seconds_count"] == {("ok", "weather"): 1}


def test_what_tools_took_is_counted_by_what_came_of_it_through_every_door() -> None:
    async def scenario() -> Read:
        config = _one_model(1)
        call = Reply.of(ToolCall.of("stumbles", {}, id="call_1"))
        async with gateway_of(
            speaking(call, "Sorry."), sources=[Functions([weather, stumbles])], config=config
        ) as client:
            await client.post(CHAT, BODIES[CHAT])
            answer = await client.post("/v1/tools/call", {"name": "weather", "arguments": {"city": "Paris"}})
            assert answer.status == 200
            return await read(client)

    assert asyncio.run(scenario())["ferrule_tool_seconds_count"] == {("error", "stumbles"): 1, ("ok", "weather"): 1}


def test_a_call_that_waits_for_leave_is_counted_and_seen_waiting() -> None:
    reply = Reply.of(ToolCall.of("order", {"item": "tea"}, id="call_1"))
    found = after((CHAT, BODIES[CHAT]), engines=(speaking(reply),), own=True)
    assert found["ferrule_approvals_asked_total"] == {("order",): 1}
    assert found["ferrule_approvals_waiting"] == {(): 1}


def test_an_engine_that_is_stood_in_for_is_counted_and_not_well() -> None:
    engines = (Failing(EngineUnavailableError("gone", code="a code of its own")), speaking("Hello."))
    found = after((CHAT, BODIES[CHAT]), engines=engines)
    assert found["ferrule_failovers_total"] == {("m",): 1}
    assert found["ferrule_engine_errors_total"] == {("engine_unavailable", "e0"): 1}
    assert found["ferrule_engine_well"] == {("e0",): 0, ("e1",): 1}


def test_an_error_is_counted_by_its_class_and_never_by_what_an_engine_calls_it() -> None:
    found = after((CHAT, BODIES[CHAT]), engines=(Failing(EngineUnavailableError("gone", code="sk-secret")),))
    assert found["ferrule_requests_total"] == {(CHAT, "m", "engine_unavailable"): 1}


def test_an_answer_under_way_is_seen_with_the_events_that_it_has_said() -> None:
    async def scenario() -> tuple[Read, Read]:
        engine = Stepping(last=5)
        async with gateway_of(engine) as client:
            asking = asyncio.ensure_future(client.post(CHAT, {**BODIES[CHAT], "stream": True}))
            await engine.began.wait()
            for _ in range(3):
                engine.leave.put_nowait(None)
            while client.gateway.watch.counted().sums["ferrule_events"] != {("e0",): 3}:
                await asyncio.sleep(0)
            during = await read(client)
            for _ in range(2):
                engine.leave.put_nowait(None)
            await asking
            return during, await read(client)

    during, ended = asyncio.run(scenario())
    assert during["ferrule_answers_open"] == {(): 1}
    assert during["ferrule_engine_answers_open"] == {("e0",): 1}
    assert during["ferrule_events_total"] == {("e0",): 3}
    assert ended["ferrule_answers_open"] == {(): 0}
    assert ended["ferrule_events_total"] == {("e0",): 7}


def test_metrics_are_for_who_has_the_right_unless_they_are_open() -> None:
    async def statuses(metrics_open: bool) -> list[int]:
        config = keyed(key("ann"), key("root", admin=True), metrics_open=metrics_open)
        async with gateway_of(speaking(), config=config) as client:
            answers = [await client.get("/metrics", headers) for headers in ({}, bearer("ann"), bearer("root"))]
            return [answer.status for answer in answers]

    assert asyncio.run(statuses(False)) == [401, 403, 200]
    assert asyncio.run(statuses(True)) == [200, 200, 200]


def test_the_counts_of_other_workers_are_in_the_page_of_whoever_is_asked(tmp_path: Path) -> None:
    async def scenario() -> Read:
        other = Counts()
        other.add("ferrule_requests", CHAT, "e0", "ok", by=41)
        other.add("ferrule_workers")
        Shared(tmp_path, 1).write(other)
        async with gateway_of(speaking("Hello.")) as client, counts_shared(client.gateway, Shared(tmp_path, 0)):
            await client.post(CHAT, BODIES[CHAT])
            return await read(client)

    found = asyncio.run(scenario())
    assert found["ferrule_requests_total"][(CHAT, "e0", "ok")] == 42
    assert found["ferrule_workers"] == {(): 2}
    left = Shared(tmp_path, 2)
    assert sum(one.sums["ferrule_requests"][(CHAT, "e0", "ok")] for one in left.others()) == 42
