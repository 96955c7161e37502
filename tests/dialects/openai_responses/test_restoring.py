"""An encoder that is restored from the events of another process."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialects.openai_responses.hosted_rounds import HOSTED, Script, check_events, encoder, scripts
from dialects.replies import is_object, through_json
from ferrule import ArgumentsDelta, CallEnd, CallStart, Finish, FinishReason, TextDelta, ToolCall, Usage
from ferrule.core.call import ToolResult
from ferrule.dialects.openai_responses.hosted_encoder import HostedEncoder
from ferrule.dialects.openai_responses.stored_response import response_body
from ferrule.errors import DefinitionError


def whole(script: Script) -> list[dict[str, Any]]:
    telling = encoder()
    return script.encode_all(telling) + telling.finish(waits=script.waits)


def restore(events: list[dict[str, Any]]) -> HostedEncoder:
    return HostedEncoder.restore(through_json(events), HOSTED)


@given(scripts(), scripts(prefix="b"), st.data())
def test_a_response_cut_anywhere_and_continued_is_one_response(
    first: Script, second: Script, data: st.DataObject
) -> None:
    events = whole(first)
    before = events[: data.draw(st.integers(1, len(events) - 1))]
    telling = restore(before)
    after = second.encode_all(telling) + telling.finish(waits=second.waits)
    items = check_events(through_json(before + after))
    done = {event["output_index"] for event in before if event["type"] == "response.output_item.done"}
    open_indices = {event["output_index"] for event in before if event["type"] == "response.output_item.added"} - done
    for at in open_indices:
        assert items[at].get("status", "incomplete") == "incomplete"


@given(scripts(), st.data())
def test_a_response_cut_again_while_it_is_repaired_is_one_response(script: Script, data: st.DataObject) -> None:
    events = whole(script)
    events = events[: data.draw(st.integers(1, len(events) - 1))]
    for _ in range(3):
        mended = restore(events).close()
        events += mended[: data.draw(st.integers(0, len(mended)))]
    check_events(through_json(events + restore(events).finish()))


@given(scripts(), st.data())
def test_usage_and_receipts_from_before_the_cut_are_in_the_last_event(script: Script, data: st.DataObject) -> None:
    events = whole(script)
    before = events[: data.draw(st.integers(1, len(events) - 1))]
    last = restore(before).finish()[-1]["response"]
    extensions = [event["ferrule"] for event in before if "ferrule" in event]
    used = [one["usage"] for one in extensions if "usage" in one]
    assert (last["usage"] or {}).get("input_tokens", 0) == sum(one["prompt_tokens"] for one in used)
    ids = {id for one in extensions for id in one.get("receipts", {})}
    assert last.get("ferrule", {}).get("receipts", {}).keys() == ids


@given(scripts(), st.data())
def test_a_clients_call_that_was_broken_off_can_never_be_read_whole(script: Script, data: st.DataObject) -> None:
    """The model is asked again after a crash: the call would be run twice."""
    events = whole(script)
    before = events[: data.draw(st.integers(1, len(events) - 1))]
    last = restore(before).finish()[-1]["response"]
    broken = [item for item in last["output"] if item["type"] == "function_call" and item["status"] == "incomplete"]
    assert not [item for item in broken if is_object(item["arguments"])]


def test_a_call_is_complete_only_if_it_was_reported_done() -> None:
    telling = encoder()
    events = telling.feed(CallStart(0, "c1", "ping")) + telling.feed(ArgumentsDelta(0, '{"a": {"b": 1}}'))
    events += telling.feed(CallEnd(0))
    for cut in range(1, len(events) + 1):
        items = [event["item"] for event in events[:cut] if event["type"] == "response.output_item.done"]
        calls = restore(events[:cut]).finish()[-1]["response"]["output"]
        assert [is_object(call["arguments"]) for call in calls if call["status"] == "completed"] == [True] * len(items)
        assert not [call for call in calls if call["status"] == "incomplete" and is_object(call["arguments"])]


@given(scripts())
def test_an_ended_response_is_not_continued(script: Script) -> None:
    telling = restore(whole(script))
    assert telling.is_over
    assert not telling.feed(TextDelta("x")) + telling.finish() + telling.close() + telling.queue()


def test_the_same_call_taken_up_again_is_a_new_item() -> None:
    call = ToolCall.of("get_weather", "{}", id="c1")
    events = encoder().start_tool(call)
    telling = restore(events)
    after = telling.start_tool(call) + telling.finish_tool(ToolResult("c1", call.name, "sun"))
    after += telling.feed(Finish(FinishReason.STOP, Usage(1, 1))) + telling.finish()
    items = check_events(events + after)
    assert [item["status"] for item in items.values()] == ["incomplete", "completed"]
    assert [item["output"] for item in items.values()] == [None, "sun"]


def test_an_approval_is_not_requested_twice() -> None:
    call = ToolCall.of("get", "{}", id="c1")
    telling = encoder()
    events = telling.request_approval(call, "appr_1") + telling.finish(waits=True)
    for cut in range(1, len(events)):
        again = restore(events[:cut])
        after = again.request_approval(call, "appr_1") + again.finish(waits=True)
        items = check_events(events[:cut] + after)
        assert [item["id"] for item in items.values()] == ["appr_1"]


def test_a_queued_response_is_begun_by_the_process_that_takes_it_over() -> None:
    events = encoder().queue()
    assert response_body(events)["status"] == "queued"
    telling = restore(events)
    assert [event["type"] for event in telling.begin()] == ["response.in_progress"]


def test_restoring_needs_at_least_one_event() -> None:
    with pytest.raises(DefinitionError, match="no events"):
        HostedEncoder.restore([])
