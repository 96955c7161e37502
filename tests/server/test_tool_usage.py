"""What /metrics tells of which tools models pick: its own tools by definition, callers' tools as one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ferrule.core.call import ToolCall
from ferrule.core.choice import ToolChoice
from ferrule.core.receipt import How, Receipt
from ferrule.core.reply import Reply
from ferrule.core.request import ToolCallRequest
from ferrule.core.tool import ToolDefinition
from ferrule.engines.fake import events_of
from ferrule.errors import EngineUnavailableError
from ferrule.run.tool_usage import SHORT_HASH
from ferrule.server.observability.metrics import MOST_SERIES, Counts
from ferrule.server.observability.tool_usage import CHOOSING, Selections
from server.client import speaking
from server.test_metrics_api import CALL, REPAIRED, after, order, weather
from server.test_router import Failing
from server.watched import BODIES, CHAT

TOLD = ("offered", "picked", "wrong", "missed", "retried", "repeated")
WEATHER, ORDER = (one.definition for one in (weather, order))
OWN = (WEATHER.fingerprint[:SHORT_HASH], "m", "weather")


def told(found: dict[str, dict[tuple[str, ...], float]]) -> dict[str, dict[tuple[str, ...], float]]:
    """By (definition, model, tool), which is the order of the labels' names."""
    return {name: found[f"ferrule_tool_{name}_total"] for name in TOLD if found.get(f"ferrule_tool_{name}_total")}


def test_the_gateways_own_tools_are_counted_by_definition() -> None:
    twice = Reply.of(REPAIRED, replace(CALL, id="call_2"))
    found = told(after((CHAT, BODIES[CHAT]), engines=(speaking(twice, "Sunny."),), own=True))
    assert found == {
        "offered": {OWN: 2, (ORDER.fingerprint[:SHORT_HASH], "m", "order"): 2},
        "picked": {OWN: 2},
        "wrong": {OWN: 1},
        "repeated": {OWN: 1},
    }


def test_the_tools_of_callers_are_one_whatever_they_are_called() -> None:
    tools = [{"type": "function", "function": {"name": name}} for name in ("weather", "secret_a", "secret_b")]
    asked = (CHAT, {**BODIES[CHAT], "tools": tools})
    found = told(after(asked, engines=(speaking(Reply.of(ToolCall.of("secret_a", {}, "c"))),), own=True))
    assert found == {"offered": {("", "m", "caller"): 1}, "picked": {("", "m", "caller"): 1}}


def test_a_choice_that_a_client_demands_and_the_model_does_not_make_is_missed() -> None:
    tools = [{"type": "function", "function": {"name": "pick"}}]
    demand: dict[str, Any] = {"tool_choice": "required", "tools": tools}
    found = told(after((CHAT, {**BODIES[CHAT], **demand}), engines=(speaking("No."),)))
    assert found == {"offered": {("", "m", "caller"): 1}, "missed": {("", "m", "caller"): 1}}


def test_an_answer_of_the_engine_that_stood_in_is_counted_once_and_one_without_tools_not_at_all() -> None:
    engines = (Failing(EngineUnavailableError("gone")), speaking("Hello.", "Hello."))
    tools = [{"type": "function", "function": {"name": "pick"}}]
    asked = ((CHAT, {**BODIES[CHAT], "tools": tools}), (CHAT, BODIES[CHAT]))
    assert told(after(*asked, engines=engines)) == {"offered": {("", "m", "caller"): 1}}


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
    selections = Selections(counts, lambda: {"weather": WEATHER})
    for tools, calls in turns:
        request = ToolCallRequest(messages=(), tools=tuple(tools), tool_choice=ToolChoice.auto())
        events = [event for event in events_of(Reply(tuple(calls))) if type(event) in CHOOSING]
        selections.replied("m", request, events)
    labels = {key for name in TOLD for key in counts.sums.get(f"ferrule_tool_{name}", {})}
    assert labels <= {("m", "weather", OWN[0]), ("m", "caller", ""), ("m", "", "")}


@given(st.integers(1, 3))
def test_definitions_that_go_on_changing_make_no_more_series_than_there_is_room_for(tools: int) -> None:
    counts = Counts()
    for number in range(MOST_SERIES + 50):
        own = {f"t{at}": ToolDefinition(f"t{at}", f"wording {number}") for at in range(tools)}
        Selections(counts, lambda own=own: own).replied(
            "m", ToolCallRequest(messages=(), tools=tuple(own.values())), ()
        )
    assert len(counts.sums["ferrule_tool_offered"]) <= MOST_SERIES + 1
    assert sum(counts.sums["ferrule_tool_offered"].values()) == tools * (MOST_SERIES + 50)
