"""Tool usage in /metrics: the gateway's tools by definition, all tools of callers under one label."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ferrule.core.call import How, Receipt, ToolCall
from ferrule.core.reply import Reply, fold
from ferrule.core.request import ToolCallRequest, ToolChoice
from ferrule.core.tool import ToolDefinition
from ferrule.engines.fake import events_of
from ferrule.errors import EngineUnavailableError
from ferrule.run.tool_usage import SHORT_HASH, ToolUsage, tool_usage_of
from ferrule.server.observability.metrics import CHOICE_EVENTS, MAX_SERIES, Counts, ToolUsageCounter
from server.client import scripted_engine
from server.test_metrics_api import CALL, REPAIRED, metrics_after, order, weather
from server.test_router import FailingEngine
from server.watched import BODIES, CHAT

NAMES = ("offered", "picked", "wrong", "missed", "retried", "repeated")
WEATHER, ORDER = (one.definition for one in (weather, order))
OWN = (WEATHER.fingerprint[:SHORT_HASH], "m", "weather")


def usage_of(samples: dict[str, dict[tuple[str, ...], float]]) -> dict[str, dict[tuple[str, ...], float]]:
    """Keys are (definition, model, tool): labels in alphabetical order."""
    return {name: samples[f"ferrule_tool_{name}_total"] for name in NAMES if samples.get(f"ferrule_tool_{name}_total")}


def test_the_gateways_own_tools_are_counted_by_definition() -> None:
    twice = Reply.of(REPAIRED, replace(CALL, id="call_2"))
    usage = usage_of(metrics_after((CHAT, BODIES[CHAT]), engines=(scripted_engine(twice, "Sunny."),), with_tools=True))
    assert usage == {
        "offered": {OWN: 2, (ORDER.fingerprint[:SHORT_HASH], "m", "order"): 2},
        "picked": {OWN: 2},
        "wrong": {OWN: 1},
        "repeated": {OWN: 1},
    }


def test_all_tools_of_callers_share_one_label() -> None:
    tools = [{"type": "function", "function": {"name": name}} for name in ("weather", "secret_a", "secret_b")]
    request = (CHAT, {**BODIES[CHAT], "tools": tools})
    usage = usage_of(
        metrics_after(request, engines=(scripted_engine(Reply.of(ToolCall.of("secret_a", {}, "c"))),), with_tools=True)
    )
    assert usage == {"offered": {("", "m", "caller"): 1}, "picked": {("", "m", "caller"): 1}}


def test_a_required_call_that_is_not_made_counts_as_missed() -> None:
    tools = [{"type": "function", "function": {"name": "pick"}}]
    demand: dict[str, Any] = {"tool_choice": "required", "tools": tools}
    usage = usage_of(metrics_after((CHAT, {**BODIES[CHAT], **demand}), engines=(scripted_engine("No."),)))
    assert usage == {"offered": {("", "m", "caller"): 1}, "missed": {("", "m", "caller"): 1}}


def test_a_failover_counts_once_and_a_request_without_tools_not_at_all() -> None:
    engines = (FailingEngine(EngineUnavailableError("gone")), scripted_engine("Hello.", "Hello."))
    tools = [{"type": "function", "function": {"name": "pick"}}]
    requests = ((CHAT, {**BODIES[CHAT], "tools": tools}), (CHAT, BODIES[CHAT]))
    assert usage_of(metrics_after(*requests, engines=engines)) == {"offered": {("", "m", "caller"): 1}}


REFUSED = replace(CALL, complete=False, receipt=Receipt(how=How.REFUSED, engine="fake", path="fake"))
parts = st.sampled_from([CALL, REPAIRED, REFUSED, ToolCall.of("wether", {}, "d"), ToolCall.of("zzz", {}, "e")])
definitions = st.sampled_from([WEATHER, replace(WEATHER, description="Otherwise."), ToolDefinition("another")])


@given(
    st.lists(st.tuples(st.lists(definitions, max_size=2, unique_by=lambda one: one.name), st.lists(parts)), max_size=5)
)
def test_no_name_of_a_caller_or_a_model_is_ever_a_label(
    turns: list[tuple[list[ToolDefinition], list[ToolCall]]],
) -> None:
    counts = Counts()
    counter = ToolUsageCounter(counts, lambda: {"weather": WEATHER})
    for tools, calls in turns:
        request = ToolCallRequest(messages=(), tools=tuple(tools), tool_choice=ToolChoice.auto())
        events = [event for event in events_of(Reply(tuple(calls))) if type(event) in CHOICE_EVENTS]
        usage = tool_usage_of(request, fold(events))
        if usage is not None:
            counter.record_usage("m", usage)
    labels = {key for name in NAMES for key in counts.values.get(f"ferrule_tool_{name}", {})}
    assert labels <= {("m", "weather", OWN[0]), ("m", "caller", ""), ("m", "", "")}


@given(st.integers(1, 3))
def test_changing_definitions_create_a_bounded_number_of_series(tools: int) -> None:
    counts = Counts()
    for number in range(MAX_SERIES + 50):
        own = {f"t{at}": ToolDefinition(f"t{at}", f"wording {number}") for at in range(tools)}
        ToolUsageCounter(counts, lambda own=own: own).record_usage("m", ToolUsage(tuple(own.values())))
    assert len(counts.values["ferrule_tool_offered"]) <= MAX_SERIES + 1
    assert sum(counts.values["ferrule_tool_offered"].values()) == tools * (MAX_SERIES + 50)
