"""The events of a turn as frames."""

from __future__ import annotations

from json import JSONDecodeError
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialects.replies import streams
from ferrule.core.call import ToolCall, ToolResult
from ferrule.core.context import Progress
from ferrule.core.event import CallEnd, CallStart, Event, Finish, FinishReason, Usage
from ferrule.core.json_text import loads
from ferrule.core.reply import Reply, fold
from ferrule.dialects.frames import server_frames as out
from ferrule.engines.fake import events_of
from ferrule.run.events import ToolFinished, ToolProgressed, ToolStarted
from ferrule.server.answer.plan import ToolOwner
from ferrule.server.websocket.encoder import FrameEncoder


def encode(telling: FrameEncoder, events: list[Event]) -> list[Any]:
    return [frame for event in events for frame in telling.feed(event)]


@given(streams(), st.sampled_from(ToolOwner))
def test_frames_encode_the_whole_reply(events: list[Event], whose: ToolOwner) -> None:
    frames, reply = encode(FrameEncoder(whose), events), fold(events)
    assert "".join(one.text for one in frames if isinstance(one, out.TokenFrame)) == reply.text
    assert "".join(one.text for one in frames if isinstance(one, out.ReasoningFrame)) == reply.reasoning
    calls = [one for one in frames if isinstance(one, out.CallFrame)]
    assert [(one.name, one.arguments, one.receipt) for one in calls] == [
        (call.name, call.function.arguments, call.receipt) for call in reply.calls
    ]
    assert {one.runs for one in calls} <= {whose.value}
    notes = [one for one in frames if isinstance(one, out.DiagnosticFrame) and one.code != "incomplete_call"]
    assert [(one.code, one.message, one.text) for one in notes] == [
        (one.code, one.message, one.text) for one in reply.diagnostics
    ]


@given(streams())
def test_an_incomplete_call_can_never_be_read_as_a_complete_one(events: list[Event]) -> None:
    frames = encode(FrameEncoder(ToolOwner.CALLER), events)
    whole = {one.id for one in frames if isinstance(one, out.CallFrame)}
    begun = {one.id for one in frames if isinstance(one, out.CallDeltaFrame)}
    cut = {one.id: one.text for one in frames if isinstance(one, out.DiagnosticFrame) and one.code == "incomplete_call"}
    assert (begun, whole & set(cut)) == (whole | set(cut), set())
    for id in begun:
        joined = "".join(one.arguments for one in frames if isinstance(one, out.CallDeltaFrame) and one.id == id)
        if id in cut:
            assert cut[id].startswith(joined)
            with pytest.raises(JSONDecodeError):
                loads(joined)


def test_duplicate_call_ids_are_made_unique_over_all_rounds_if_the_caller_runs_the_calls() -> None:
    telling = FrameEncoder(ToolOwner.CALLER)
    reply = Reply.of(ToolCall.of("a", {}, "call_1"), ToolCall.of("a", {}, "call_1"))
    ids = [
        one.id for _ in range(2) for one in encode(telling, list(events_of(reply))) if isinstance(one, out.CallFrame)
    ]
    assert len(set(ids)) == 4
    assert [call.id for call in telling.reply.calls] == ids[2:]


def test_duplicate_call_ids_are_made_unique_as_in_the_loop_if_the_gateway_runs_the_calls() -> None:
    telling = FrameEncoder(ToolOwner.GATEWAY)
    reply = Reply.of(ToolCall.of("a", {}, "call_1"), ToolCall.of("a", {}, "call_1"))
    rounds = [
        [one.id for one in encode(telling, list(events_of(reply))) if isinstance(one, out.CallFrame)] for _ in range(2)
    ]
    assert rounds == [["call_1", "call_2"]] * 2


def test_usage_is_the_sum_of_all_rounds() -> None:
    telling = FrameEncoder(ToolOwner.GATEWAY)
    for reason in (FinishReason.TOOL_CALLS, FinishReason.STOP):
        encode(telling, [CallStart(0, "c", "a"), CallEnd(0), Finish(reason, Usage(10, 2))])
    assert telling.done_frame("so far").usage == Usage(20, 4)
    # The gateway has run them itself: nothing is left to be called.
    assert (telling.done_frame().finish_reason, telling.done_frame("so far").limit) == ("stop", "so far")


def test_an_answer_that_was_cut_off_never_looks_finished() -> None:
    telling = FrameEncoder(ToolOwner.CALLER)
    encode(telling, [CallStart(0, "c", "a"), CallEnd(0), Finish(FinishReason.LENGTH)])
    assert telling.done_frame().finish_reason == "length"


def test_tool_events_become_frames() -> None:
    telling, call = FrameEncoder(ToolOwner.GATEWAY), ToolCall.of("add", {"a": 1}, "c")
    assert telling.feed(ToolStarted(call)) == [out.ToolStartedFrame("c", "add", '{"a": 1}')]
    assert telling.feed(ToolProgressed("c", Progress(1, 2, "half"))) == [out.ToolProgressFrame("c", 1, 2, "half")]
    assert telling.feed(ToolFinished(ToolResult("c", "add", {"sum": 1}))) == [
        out.ToolResultFrame("c", "add", {"sum": 1})
    ]


@pytest.mark.parametrize(
    "progress, frames",
    [
        (Progress(float("nan")), []),
        (Progress(1.0, float("inf")), [out.ToolProgressFrame("c", 1.0)]),
    ],
)
def test_progress_that_json_has_no_number_for_is_left_out(progress: Progress, frames: list[Any]) -> None:
    assert FrameEncoder(ToolOwner.GATEWAY).feed(ToolProgressed("c", progress)) == frames
