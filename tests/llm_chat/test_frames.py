"""The frames of llm.chat@2.0: what a model said comes back as it was, and what is not a frame is refused."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dialects.replies import is_object, receipts_of, streams, through_json
from ferrule import CallEnd, Finish, FinishReason, Reply, ToolCall
from ferrule.core.event import ArgumentsDelta, CallStart, Diagnostic, Event, RuleShown, TextDelta, WireText
from ferrule.core.reply import events_of, fold
from ferrule.errors import EngineError
from ferrule.llm_chat.frames import FrameDecoder, FrameEncoder


def encoded(events: list[Event]) -> list[dict[str, Any]]:
    encoder = FrameEncoder()
    return through_json([frame for event in events for frame in encoder.feed(event)])


def decoded(frames: list[Any]) -> tuple[list[Event], FrameDecoder]:
    decoder = FrameDecoder()
    return [event for frame in frames for event in decoder.feed(frame)], decoder


@given(streams())
def test_a_reply_comes_back_as_it_was(events: list[Event]) -> None:
    before, (after, decoder) = fold(events), decoded(encoded(events))
    reply = fold(after)
    assert (reply.calls, reply.text, reply.reasoning) == (before.calls, before.text, before.reasoning)
    assert (reply.finish_reason, reply.usage, reply.diagnostics) == (
        before.finish_reason,
        before.usage,
        before.diagnostics,
    )
    assert {call.id: call.function for call in reply.incomplete} == {
        call.id: call.function for call in before.incomplete
    }
    known = {id: receipt for id, receipt in receipts_of(before).items() if receipt}
    ids = [event.id for event in after if isinstance(event, CallStart)]
    assert {ids[index]: receipt for index, receipt in decoder.receipts.items()} == known


@given(streams())
def test_pieces_of_arguments_are_no_whole_object_before_the_call_is_complete(events: list[Event]) -> None:
    joined: dict[str, str] = {}
    frames = encoded(events)
    complete = {frame["id"] for frame in frames if frame["type"] == "tool_call"}
    for frame in frames:
        if frame["type"] == "tool_call_delta":
            joined[frame["id"]] = joined.get(frame["id"], "") + frame["arguments_delta"]
    for id, text in joined.items():
        if id not in complete:
            assert not is_object(text)


def test_the_frames_of_a_call_are_those_of_the_specification() -> None:
    call = ToolCall.of("rag.query", {"query": "Regenwasser"}, id="tc_1")
    frames = encoded(list(events_of(Reply.of("I'll search ", call))))
    assert frames[0] == {"type": "token", "text": "I'll search "}
    assert frames[1] == {"type": "tool_call_delta", "id": "tc_1", "name": "rag.query", "arguments_delta": ""}
    assert {frame["type"] for frame in frames[2:-2]} == {"tool_call_delta"}
    assert "".join(frame["arguments_delta"] for frame in frames[2:-2]) == call.function.arguments
    assert frames[-2] == {
        "type": "tool_call",
        "id": "tc_1",
        "name": "rag.query",
        "arguments": {"query": "Regenwasser"},
    }
    assert frames[-1] == {"type": "done", "finish_reason": "tool_calls"}


def test_a_sender_may_send_calls_without_their_pieces() -> None:
    events, _ = decoded(
        [
            {"type": "tool_call", "id": "a", "name": "ping", "arguments": {"n": 1}},
            {"type": "tool_call", "id": "b", "name": "ping", "arguments": {}},
            {"type": "done", "finish_reason": "tool_calls"},
        ]
    )
    assert [(call.id, call.arguments) for call in fold(events).calls] == [("a", {"n": 1}), ("b", {})]


def test_calls_that_share_an_id_get_different_ones() -> None:
    same = ToolCall.of("ping", {}, id="c")
    reply = fold(decoded(encoded(list(events_of(Reply.of(same, same)))))[0])
    assert len({call.id for call in reply.calls}) == 2


def test_pieces_that_are_not_the_arguments_of_the_call_are_told() -> None:
    events, _ = decoded(
        [
            {"type": "tool_call_delta", "id": "a", "name": "pay", "arguments_delta": '{"amount": 1'},
            {"type": "tool_call", "id": "a", "name": "pay", "arguments": {"amount": 1000}},
        ]
    )
    assert [event.code for event in events if isinstance(event, Diagnostic)] == ["bad_arguments"]


def test_the_rule_and_the_raw_text_are_carried_for_debugging() -> None:
    shown: list[Event] = [
        RuleShown("hermes", "lark", "start: x", "<|im_start|>", ("<tool_call>",)),
        WireText("<tool_call>", is_forced=True),
        TextDelta("x"),
        Finish(FinishReason.STOP),
    ]
    assert decoded(encoded(shown))[0] == shown


def test_a_frame_of_an_unknown_type_is_skipped() -> None:
    assert decoded([{"type": "mood", "text": "fine"}, {"type": "token", "text": "a"}])[0] == [TextDelta("a")]


@given(
    st.one_of(
        st.none() | st.integers() | st.text() | st.lists(st.integers()),
        st.dictionaries(st.text(), st.integers()),
        st.fixed_dictionaries(
            {"type": st.sampled_from(["token", "tool_call", "tool_call_delta", "done", "diagnostic", "rule", "wire"])},
            optional={
                name: st.none() | st.integers() | st.text() | st.lists(st.integers()) | st.just({})
                for name in ("text", "id", "name", "arguments", "arguments_delta", "finish_reason", "usage", "receipt")
            },
        ),
    )
)
def test_whatever_a_worker_sends_is_read_or_refused(frame: object) -> None:
    try:
        events = FrameDecoder().feed(frame)
    except EngineError:
        return
    for event in events:
        assert isinstance(event, Event)
        if isinstance(event, CallEnd):
            assert any(isinstance(one, ArgumentsDelta) for one in events) or not event.complete
