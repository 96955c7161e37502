"""`/metrics`: the metrics of requests, answers, calls and engines."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families

from ferrule.core.call import How, Receipt, ToolCall
from ferrule.core.event import FinishReason, Usage
from ferrule.core.reply import Reply
from ferrule.engines.engine import Engine
from ferrule.errors import EngineUnavailableError
from ferrule.schema.tool_decorator import tool
from ferrule.server.config.config import Config, EngineConfig, ModelConfig
from ferrule.server.observability.metrics import Counts, SharedCounts
from ferrule.server.observability.metrics_api import share_counts
from ferrule.sources.functions import Functions
from ferrule.sources.status import SourceStatus
from server.client import Client, gateway_of, scripted_engine
from server.keys import bearer, config_with_keys, key
from server.test_router import FailingEngine
from server.watched import BODIES, CHAT, MESSAGES, StepEngine

CALL = ToolCall.of("weather", {"city": "Paris"}, id="call_1")
REPAIRED = replace(CALL, receipt=Receipt(how=How.REPAIRED, engine="fake", path="fake"))


@tool
def weather(city: str) -> str:
    """The weather in a city."""
    return f"sunny in {city}"


@tool
def fail() -> str:
    """Always fails."""
    raise RuntimeError


@tool(side_effects=True)
def order(item: str) -> str:
    """Orders something."""
    return f"ordered {item}"


Samples = dict[str, dict[tuple[str, ...], float]]


async def read_metrics(client: Client, headers: dict[str, str] | None = None) -> Samples:
    """Values by sample name and label values, ordered by label name."""
    answer = await client.get("/metrics", headers)
    assert answer.status == 200
    samples: Samples = {}
    for family in text_string_to_metric_families(answer.body.decode()):
        for sample in family.samples:
            samples.setdefault(sample.name, {})[tuple(value for _, value in sorted(sample.labels.items()))] = (
                sample.value
            )
    return samples


def metrics_after(
    *requests: tuple[str, dict[str, Any]], engines: tuple[Engine, ...], with_tools: bool = False
) -> Samples:
    async def scenario() -> Samples:
        sources = [Functions([weather, order])] if with_tools else []
        async with gateway_of(*engines, sources=sources, config=_one_model(len(engines))) as client:
            for path, body in requests:
                await client.post(path, body)
            return await read_metrics(client)

    return asyncio.run(scenario())


def _one_model(engines: int) -> Config:
    named = tuple(EngineConfig(name=f"e{at}", use=f"e{at}") for at in range(engines))
    return Config(engines=named, models=(ModelConfig(name="m", engines=tuple(one.name for one in named)),))


@pytest.mark.parametrize("path", [CHAT, MESSAGES])
@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_is_counted_with_its_tokens_and_times(path: str, stream: bool) -> None:
    reply = Reply(Reply.of("Hello.").parts, finish=FinishReason.STOP, usage=Usage(7, 5))
    samples = metrics_after((path, {**BODIES[path], "stream": stream}), engines=(scripted_engine(reply),))
    assert samples["ferrule_requests_total"] == {(path, "m", "ok"): 1}
    assert samples["ferrule_tokens_total"] == {("completion", "m"): 5, ("prompt", "m"): 7}
    assert samples["ferrule_events_total"] == {("m",): 3}
    assert samples["ferrule_answer_seconds_count"] == samples["ferrule_first_event_seconds_count"] == {("m",): 1}
    assert samples["ferrule_answers_open"] == {(): 0}


def test_names_chosen_by_clients_create_no_series() -> None:
    requests = [(CHAT, {**BODIES[CHAT], "model": f"made-up-{at}"}) for at in range(20)]
    tools = [{"type": "function", "function": {"name": f"tool_{at}"}} for at in range(20)]
    calls = [(CHAT, {**BODIES[CHAT], "tools": [one]}) for one in tools]
    replies = [Reply.of(ToolCall.of(f"tool_{at}", {}, id="c")) for at in range(20)]
    samples = metrics_after(*requests, *calls, engines=(scripted_engine(*["Hello."] * 20, *replies),))
    assert samples["ferrule_requests_total"] == {(CHAT, "m", "ok"): 40}
    assert samples["ferrule_calls_total"] == {("validated", "complete", "caller"): 20}


def test_unknown_paths_share_one_series() -> None:
    async def scenario() -> Samples:
        async with gateway_of(scripted_engine()) as client:
            for at in range(20):
                await client.get(f"/nowhere/{at}")
                await client.get(f"/v1/models/{at}")
            return await read_metrics(client)

    samples = asyncio.run(scenario())
    assert samples["ferrule_requests_total"] == {
        ("other", "", "not_found"): 20,
        ("/v1/models/{id}", "", "not_found"): 20,
    }


def test_calls_are_counted_by_tool_and_guarantee() -> None:
    samples = metrics_after(
        (CHAT, BODIES[CHAT]), engines=(scripted_engine(Reply.of(REPAIRED), "Sunny."),), with_tools=True
    )
    assert samples["ferrule_calls_total"] == {("repaired", "complete", "weather"): 1}
    assert samples["ferrule_repairs_total"] == {("m",): 1}
    assert samples["ferrule_tool_seconds_count"] == {("ok", "weather"): 1}


def test_tool_durations_are_counted_by_outcome_in_every_api() -> None:
    async def scenario() -> Samples:
        config = _one_model(1)
        call = Reply.of(ToolCall.of("fail", {}, id="call_1"))
        async with gateway_of(
            scripted_engine(call, "Sorry."), sources=[Functions([weather, fail])], config=config
        ) as client:
            await client.post(CHAT, BODIES[CHAT])
            answer = await client.post("/v1/tools/call", {"name": "weather", "arguments": {"city": "Paris"}})
            assert answer.status == 200
            return await read_metrics(client)

    assert asyncio.run(scenario())["ferrule_tool_seconds_count"] == {("error", "fail"): 1, ("ok", "weather"): 1}


def test_a_call_that_waits_for_approval_is_counted_as_pending() -> None:
    reply = Reply.of(ToolCall.of("order", {"item": "tea"}, id="call_1"))
    samples = metrics_after((CHAT, BODIES[CHAT]), engines=(scripted_engine(reply),), with_tools=True)
    assert samples["ferrule_approvals_asked_total"] == {("order",): 1}
    assert samples["ferrule_approvals_waiting"] == {(): 1}


def test_a_call_by_its_name_that_waits_for_approval_is_counted_once() -> None:
    call = {"name": "order", "arguments": {"item": "tea"}, "call_id": "c1"}
    samples = metrics_after(*[("/v1/tools/call", call)] * 2, engines=(scripted_engine(),), with_tools=True)
    assert samples["ferrule_approvals_asked_total"] == {("order",): 1}
    assert samples["ferrule_approvals_waiting"] == {(): 1}


def test_a_failover_is_counted_and_the_engine_is_unhealthy() -> None:
    engines = (FailingEngine(EngineUnavailableError("gone", code="a code of its own")), scripted_engine("Hello."))
    samples = metrics_after((CHAT, BODIES[CHAT]), engines=engines)
    assert samples["ferrule_failovers_total"] == {("m",): 1}
    assert samples["ferrule_engine_errors_total"] == {("engine_unavailable", "e0"): 1}
    assert samples["ferrule_engine_well"] == {("e0",): 0, ("e1",): 1}


def test_an_error_is_counted_by_its_class_and_not_by_a_code_of_the_engine() -> None:
    samples = metrics_after(
        (CHAT, BODIES[CHAT]), engines=(FailingEngine(EngineUnavailableError("gone", code="sk-secret")),)
    )
    assert samples["ferrule_requests_total"] == {(CHAT, "m", "engine_unavailable"): 1}


def test_an_answer_in_progress_is_counted_with_its_events() -> None:
    async def scenario() -> tuple[Samples, Samples]:
        engine = StepEngine(last=5)
        async with gateway_of(engine) as client:
            request = asyncio.ensure_future(client.post(CHAT, {**BODIES[CHAT], "stream": True}))
            await engine.started.wait()
            for _ in range(3):
                engine.steps.put_nowait(None)
            while client.gateway.telemetry.snapshot().values["ferrule_events"] != {("e0",): 3}:
                await asyncio.sleep(0)
            during = await read_metrics(client)
            for _ in range(2):
                engine.steps.put_nowait(None)
            await request
            return during, await read_metrics(client)

    during, ended = asyncio.run(scenario())
    assert during["ferrule_answers_open"] == {(): 1}
    assert during["ferrule_engine_answers_open"] == {("e0",): 1}
    assert during["ferrule_events_total"] == {("e0",): 3}
    assert ended["ferrule_answers_open"] == {(): 0}
    assert ended["ferrule_events_total"] == {("e0",): 7}


def test_metrics_need_an_admin_key_unless_they_are_open() -> None:
    async def statuses(metrics_open: bool) -> list[int]:
        config = config_with_keys(key("ann"), key("root", admin=True), metrics_open=metrics_open)
        async with gateway_of(scripted_engine(), config=config) as client:
            answers = [await client.get("/metrics", headers) for headers in ({}, bearer("ann"), bearer("root"))]
            return [answer.status for answer in answers]

    assert asyncio.run(statuses(False)) == [401, 403, 200]
    assert asyncio.run(statuses(True)) == [200, 200, 200]


def test_any_worker_shows_the_counts_of_all_workers(tmp_path: Path) -> None:
    async def scenario() -> Samples:
        other = Counts()
        other.add("ferrule_requests", CHAT, "e0", "ok", by=41)
        other.add("ferrule_workers")
        SharedCounts(tmp_path, 1).write(other)
        async with (
            gateway_of(scripted_engine("Hello.")) as client,
            share_counts(client.gateway, SharedCounts(tmp_path, 0)),
        ):
            await client.post(CHAT, BODIES[CHAT])
            return await read_metrics(client)

    samples = asyncio.run(scenario())
    assert samples["ferrule_requests_total"][(CHAT, "e0", "ok")] == 42
    assert samples["ferrule_workers"] == {(): 2}
    third = SharedCounts(tmp_path, 2)
    assert sum(one.values["ferrule_requests"][(CHAT, "e0", "ok")] for one in third.others()) == 42


TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
ACCEPTED = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2,*/*;q=0.1"


def test_a_scraper_that_accepts_openmetrics_gets_exemplars_that_link_to_the_trace_and_the_request() -> None:
    async def scenario() -> tuple[str, str, str]:
        async with gateway_of(scripted_engine("Hello.")) as client:
            answer = await client.post(CHAT, BODIES[CHAT], {"traceparent": TRACEPARENT})
            page = await client.get("/metrics", {"accept": ACCEPTED})
            return answer.headers["x-request-id"], page.headers["content-type"], page.body.decode()

    request_id, media_type, page = asyncio.run(scenario())
    assert media_type == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    families = {family.name: family for family in read_openmetrics(page)}
    for name in ("ferrule_answer_seconds", "gen_ai_client_operation_duration_seconds"):
        (exemplar,) = [sample.exemplar for sample in families[name].samples if sample.exemplar]
        assert exemplar.labels == {"trace_id": TRACEPARENT.split("-")[1], "request_id": request_id}


@pytest.mark.parametrize(
    "accept",
    ["", "*/*", "text/plain", "application/openmetrics-text;q=0", "application/openmetrics-textual", ";;,=,\x00"],
)
def test_everyone_else_gets_the_older_format_without_exemplars(accept: str) -> None:
    async def scenario() -> tuple[str, str]:
        async with gateway_of(scripted_engine("Hello.")) as client:
            await client.post(CHAT, BODIES[CHAT], {"traceparent": TRACEPARENT})
            page = await client.get("/metrics", {"accept": accept})
            return page.headers["content-type"], page.body.decode()

    media_type, page = asyncio.run(scenario())
    assert media_type.startswith("text/plain; version=0.0.4")
    assert TRACEPARENT.split("-")[1] not in page


def test_the_newest_exemplar_of_all_workers_is_shown(tmp_path: Path) -> None:
    name = "ferrule_answer_seconds"
    older, newer = Counts(), Counts()
    older.observe(name, 0.2, "m", ids=("a" * 32, "req_1"))
    newer.observe(name, 0.2, "m", ids=("b" * 32, "req_2"))
    SharedCounts(tmp_path, 1).write(newer)
    (read,) = SharedCounts(tmp_path, 0).others()
    for one, other in ((older, read), (read, older)):
        merged = Counts()
        merged.merge(one)
        merged.merge(other)
        (exemplar,) = merged.histograms[name][("m",)].exemplars.values()
        assert (exemplar.trace_id, exemplar.request_id) == ("b" * 32, "req_2")
        assert sum(merged.histograms[name][("m",)].counts) == 2


def test_each_reply_of_a_loop_is_an_operation_by_the_genai_conventions() -> None:
    call = Reply(Reply.of(CALL).parts, finish=FinishReason.TOOL_CALLS, usage=Usage(7, 5))
    last = Reply(Reply.of("Sunny.").parts, finish=FinishReason.STOP, usage=Usage(20, 3))
    samples = metrics_after((CHAT, BODIES[CHAT]), engines=(scripted_engine(call, last),), with_tools=True)
    operation = ("chat", "fake", "m")
    # The parser orders labels by name: error_type comes first.
    assert samples["gen_ai_client_operation_duration_seconds_count"] == {("", *operation): 2}
    assert samples["gen_ai_client_operation_time_to_first_chunk_seconds_count"] == {operation: 2}
    assert samples["gen_ai_server_request_duration_seconds_count"] == {("", *operation): 1}
    assert samples["gen_ai_client_token_usage_sum"] == {(*operation, "input"): 27, (*operation, "output"): 8}
    assert samples["gen_ai_execute_tool_duration_seconds_count"] == {("", "weather"): 1}
    assert "mcp_client_operation_duration_seconds_count" not in samples


def test_a_failed_reply_is_an_operation_with_its_error() -> None:
    samples = metrics_after((CHAT, BODIES[CHAT]), engines=(FailingEngine(EngineUnavailableError("gone")),))
    counted = samples["gen_ai_client_operation_duration_seconds_count"]
    assert counted == {("engine_unavailable", "chat", "failing", "m"): 1}
    assert "gen_ai_client_operation_time_to_first_chunk_seconds_count" not in samples


class McpTools(Functions):
    """Functions that say of themselves what tools of an MCP server say."""

    kind = "mcp"

    @property
    def statuses(self) -> tuple[SourceStatus, ...]:
        return (SourceStatus("files", self.kind, tools=("weather",)),)


def test_a_tool_of_an_mcp_server_is_an_operation_of_its_client() -> None:
    async def scenario() -> Samples:
        async with gateway_of(scripted_engine(Reply.of(CALL), "Sunny."), sources=[McpTools([weather])]) as client:
            await client.post(CHAT, BODIES[CHAT])
            return await read_metrics(client)

    counted = asyncio.run(scenario())["mcp_client_operation_duration_seconds_count"]
    assert counted == {("", "weather", "tools/call"): 1}


def test_what_waits_for_the_ledger_is_counted() -> None:
    async def scenario() -> Samples:
        async with gateway_of(scripted_engine("Hello.")) as client:
            await client.gateway.traces.flush()
            return await read_metrics(client)

    samples = asyncio.run(scenario())
    assert samples["ferrule_traces_waiting"] == {(): 0}
    assert samples["ferrule_ledger_probe_seconds"][("1",)] > 0
