"""Folding events to a reply: the grouping of deltas never matters, and what was cut off is never handed on."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule import (
    ArgumentsDelta,
    CallEnd,
    CallStart,
    Diagnostic,
    Event,
    Finish,
    FinishReason,
    FunctionCall,
    Reasoning,
    ReasoningDelta,
    Reply,
    Role,
    Text,
    TextDelta,
    ToolCall,
    Usage,
    fold,
)
from ferrule.core.reply import ReplyFold

some_text = st.text(min_size=1, max_size=6)


@st.composite
def streams(draw: st.DrawFn) -> list[Event]:
    """Events as a parser gives them: calls one after another, text and reasoning between them."""
    events: list[Event] = []
    for index in range(draw(st.integers(0, 4))):
        between = st.one_of(some_text.map(TextDelta), some_text.map(ReasoningDelta))
        events.extend(draw(st.lists(between, max_size=3)))
        events.append(CallStart(index, f"c{index}", draw(st.sampled_from(["ping", "find"]))))
        events.extend(ArgumentsDelta(index, json) for json in draw(st.lists(some_text, max_size=3)))
        if draw(st.booleans()):
            events.append(Diagnostic("odd", "something", index=index))
        # A stream that broke off has no end for its last call.
        if draw(st.booleans()):
            events.append(CallEnd(index, draw(st.booleans())))
    if draw(st.booleans()):
        events.append(Finish(draw(st.sampled_from(FinishReason)), Usage(1, 2)))
    return events


def halves(event: Event, at: int) -> list[Event]:
    match event:
        case TextDelta(text) | ReasoningDelta(text) if 0 < at < len(text):
            return [replace(event, text=text[:at]), replace(event, text=text[at:])]
        case ArgumentsDelta(_, json) if 0 < at < len(json):
            return [replace(event, json=json[:at]), replace(event, json=json[at:])]
        case _:
            return [event]


@given(streams(), st.integers(1, 5))
def test_deltas_cut_smaller_sum_to_the_same(events: list[Event], at: int) -> None:
    assert fold(half for event in events for half in halves(event, at)) == fold(events)


@given(streams(), st.lists(st.integers(0, 20)))
def test_looking_at_the_reply_so_far_does_not_change_the_sum(events: list[Event], looks: list[int]) -> None:
    folding = ReplyFold()
    for number, event in enumerate(events):
        folding.add(event)
        if number in looks:
            assert folding.reply() == fold(events[: number + 1])
    assert folding.reply() == fold(events)


@given(streams())
def test_a_reply_so_far_is_not_changed_by_what_comes_later(events: list[Event]) -> None:
    folding = ReplyFold()
    partial_replies: list[Reply] = []
    for event in events:
        folding.add(event)
        partial_replies.append(folding.reply())
    assert partial_replies == [fold(events[: end + 1]) for end in range(len(events))]


@given(streams())
def test_no_two_neighbours_are_both_text_or_both_reasoning(events: list[Event]) -> None:
    kinds = [type(part) for part in fold(events).parts]
    assert all(a is not b or a is ToolCall for a, b in pairwise(kinds))


@given(streams())
def test_an_incomplete_call_is_neither_handed_on_nor_shown_to_the_model_again(events: list[Event]) -> None:
    reply = fold(events)
    ended = {event.index for event in events if isinstance(event, CallEnd) and event.complete}
    assert {call.id for call in reply.calls} == {f"c{index}" for index in ended}
    message = reply.as_message()
    assert message.role is Role.ASSISTANT
    assert message.tool_calls == reply.calls
    assert message.content == reply.text
    assert message.reasoning == reply.reasoning
    assert len(reply.calls) + len(reply.incomplete) == sum(isinstance(event, CallStart) for event in events)


@given(streams())
def test_a_length_stop_stays_a_length_stop_whatever_came_before(events: list[Event]) -> None:
    assert fold([*events, Finish(FinishReason.LENGTH)]).finish_reason is FinishReason.LENGTH


@pytest.mark.parametrize("reason", [FinishReason.STOP, FinishReason.TOOL_CALLS, None])
def test_otherwise_the_reason_follows_from_the_calls(reason: FinishReason | None) -> None:
    complete, cut_off = ToolCall.of("ping"), ToolCall("", FunctionCall("ping"), complete=False)
    assert replace(Reply.of("hi", complete), finish=reason).finish_reason is FinishReason.TOOL_CALLS
    assert replace(Reply.of("hi", cut_off), finish=reason).finish_reason is FinishReason.STOP
    assert replace(Reply.of("hi"), finish=reason).finish_reason is FinishReason.STOP


def test_parts_keep_their_order() -> None:
    events = [ReasoningDelta("a"), TextDelta("b"), CallStart(0, "c0", "f"), CallEnd(0), TextDelta("c")]
    assert fold(events).parts == (Reasoning("a"), Text("b"), ToolCall("c0", FunctionCall("f", "")), Text("c"))


def test_calls_that_stream_at_the_same_time_are_kept_apart() -> None:
    events = [
        CallStart(0, "c0", "f"),
        CallStart(1, "c1", "g"),
        ArgumentsDelta(1, '{"b":'),
        ArgumentsDelta(0, "{}"),
        ArgumentsDelta(1, " 2}"),
        CallEnd(1),
        CallEnd(0),
    ]
    assert [(call.name, call.arguments) for call in fold(events).calls] == [("f", {}), ("g", {"b": 2})]


def test_usage_and_diagnostics_are_kept() -> None:
    note = Diagnostic("odd", "something")
    reply = fold([note, Finish(FinishReason.STOP, Usage(3, 4))])
    assert reply.diagnostics == (note,)
    assert reply.usage == Usage(3, 4)
    assert fold([]) == Reply()


def test_a_string_in_a_reply_is_text() -> None:
    assert Reply.of("hi", Reasoning("hm")).parts == (Text("hi"), Reasoning("hm"))


def test_an_empty_delta_adds_no_part() -> None:
    assert fold([TextDelta("")]) == fold([])
