"""An encoder rebuilt from what another had told before its process died."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialects.openai_responses.hosted_rounds import HOSTED, Script, assert_well_told, encoder, scripts
from dialects.replies import is_object, through_json
from ferrule import ArgumentsDelta, CallEnd, CallStart, Finish, FinishReason, TextDelta, ToolCall, Usage
from ferrule.core.call import ToolResult
from ferrule.dialects.openai_responses.hosted_encoder import HostedEncoder
from ferrule.dialects.openai_responses.stored_response import response_body
from ferrule.errors import DefinitionError


def whole(script: Script) -> list[dict[str, Any]]:
    telling = encoder()
    return script.told(telling) + telling.finish(waits=script.waits)


def restored(events: list[dict[str, Any]]) -> HostedEncoder:
    return HostedEncoder.restored(through_json(events), HOSTED)


@given(scripts(), scripts(prefix="b"), st.data())
def test_cut_anywhere_and_gone_on_with_it_is_one_response(first: Script, second: Script, data: st.DataObject) -> None:
    events = whole(first)
    before = events[: data.draw(st.integers(1, len(events) - 1))]
    telling = restored(before)
    after = second.told(telling) + telling.finish(waits=second.waits)
    items = assert_well_told(through_json(before + after))
    done = {event["output_index"] for event in before if event["type"] == "response.output_item.done"}
    left = {event["output_index"] for event in before if event["type"] == "response.output_item.added"} - done
    for at in left:
        assert items[at].get("status", "incomplete") == "incomplete"


@given(scripts(), st.data())
def test_cut_anywhere_and_cut_again_while_it_is_mended_is_one_response(script: Script, data: st.DataObject) -> None:
    told = whole(script)
    told = told[: data.draw(st.integers(1, len(told) - 1))]
    for _ in range(3):
        mended = restored(told).close()
        told += mended[: data.draw(st.integers(0, len(mended)))]
    assert_well_told(through_json(told + restored(told).finish()))


@given(scripts(), st.data())
def test_what_was_told_before_is_still_counted_at_the_end(script: Script, data: st.DataObject) -> None:
    events = whole(script)
    before = events[: data.draw(st.integers(1, len(events) - 1))]
    last = restored(before).finish()[-1]["response"]
    told = [event["ferrule"] for event in before if "ferrule" in event]
    used = [one["usage"] for one in told if "usage" in one]
    assert (last["usage"] or {}).get("input_tokens", 0) == sum(one["prompt_tokens"] for one in used)
    ids = {id for one in told for id in one.get("receipts", {})}
    assert last.get("ferrule", {}).get("receipts", {}).keys() == ids


@given(scripts(), st.data())
def test_a_clients_call_that_was_broken_off_can_never_be_read_whole(script: Script, data: st.DataObject) -> None:
    """The model is asked again after a crash: the call would be run twice."""
    events = whole(script)
    before = events[: data.draw(st.integers(1, len(events) - 1))]
    last = restored(before).finish()[-1]["response"]
    broken = [item for item in last["output"] if item["type"] == "function_call" and item["status"] == "incomplete"]
    assert not [item for item in broken if is_object(item["arguments"])]


def test_a_call_is_read_whole_only_where_it_was_told_to_be_done() -> None:
    telling = encoder()
    told = telling.feed(CallStart(0, "c1", "ping")) + telling.feed(ArgumentsDelta(0, '{"a": {"b": 1}}'))
    told += telling.feed(CallEnd(0))
    for cut in range(1, len(told) + 1):
        items = [event["item"] for event in told[:cut] if event["type"] == "response.output_item.done"]
        calls = restored(told[:cut]).finish()[-1]["response"]["output"]
        assert [is_object(call["arguments"]) for call in calls if call["status"] == "completed"] == [True] * len(items)
        assert not [call for call in calls if call["status"] == "incomplete" and is_object(call["arguments"])]


@given(scripts())
def test_a_response_that_has_ended_is_not_gone_on_with(script: Script) -> None:
    telling = restored(whole(script))
    assert telling.is_over
    assert not telling.feed(TextDelta("x")) + telling.finish() + telling.close() + telling.queue()


def test_the_same_call_taken_up_again_is_a_new_item() -> None:
    call = ToolCall.of("get_weather", "{}", id="c1")
    told = encoder().started(call)
    telling = restored(told)
    after = telling.started(call) + telling.finished(ToolResult("c1", call.name, "sun"))
    after += telling.feed(Finish(FinishReason.STOP, Usage(1, 1))) + telling.finish()
    items = assert_well_told(told + after)
    assert [item["status"] for item in items.values()] == ["incomplete", "completed"]
    assert [item["output"] for item in items.values()] == [None, "sun"]


def test_leave_that_was_asked_for_is_not_asked_for_twice() -> None:
    call = ToolCall.of("get", "{}", id="c1")
    telling = encoder()
    told = telling.asked(call, "appr_1") + telling.finish(waits=True)
    for cut in range(1, len(told)):
        again = restored(told[:cut])
        after = again.asked(call, "appr_1") + again.finish(waits=True)
        items = assert_well_told(told[:cut] + after)
        assert [item["id"] for item in items.values()] == ["appr_1"]


def test_a_queued_response_is_begun_by_whoever_takes_it_up() -> None:
    told = encoder().queue()
    assert response_body(told)["status"] == "queued"
    telling = restored(told)
    assert [event["type"] for event in telling.begin()] == ["response.in_progress"]


def test_there_must_be_something_to_go_on_from() -> None:
    with pytest.raises(DefinitionError, match="no events"):
        HostedEncoder.restored([])
