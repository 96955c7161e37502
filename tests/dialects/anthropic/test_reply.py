"""Streams and bodies of Anthropic's API, and how Ferrule decodes them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialects.replies import TOOLS, numbered_id
from ferrule import FinishReason, Reasoning, Reply, Text, ToolCall, Usage, fold
from ferrule.dialects.anthropic.reply_decoder import ReplyDecoder, events_of

START = {"type": "message_start", "message": {"usage": {"input_tokens": 3, "cache_read_input_tokens": 2}}}
PARIS = '{"city": "Paris"}'


def block(index: int, content: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"type": "content_block_start", "index": index, "content_block": content},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def use(index: int, *pieces: str, name: str = "get_weather", input: Any = None) -> list[dict[str, Any]]:
    content = {"type": "tool_use", "id": f"toolu_{index}", "name": name, "input": {} if input is None else input}
    return block(index, content, *({"type": "input_json_delta", "partial_json": piece} for piece in pieces))


def end(reason: str = "tool_use") -> list[dict[str, Any]]:
    delta = {"stop_reason": reason, "stop_sequence": None}
    return [{"type": "message_delta", "delta": delta, "usage": {"output_tokens": 9}}, {"type": "message_stop"}]


def reply(*events: dict[str, Any]) -> Reply:
    decoder = ReplyDecoder(TOOLS, make_id=numbered_id)
    return fold([decoded for event in events for decoded in decoder.feed(event)] + decoder.close())


def codes(reply: Reply) -> list[str]:
    return [note.code for note in reply.diagnostics]


def test_a_stream_with_everything_is_read() -> None:
    thinking = {"type": "thinking", "thinking": "", "signature": ""}
    events = [
        START,
        {"type": "ping"},
        *block(
            0, thinking, {"type": "thinking_delta", "thinking": "hm"}, {"type": "signature_delta", "signature": "x"}
        ),
        *block(1, {"type": "text", "text": ""}, {"type": "text_delta", "text": "Let me look."}),
        *use(2, "", PARIS[:4], PARIS[4:]),
        *end(),
    ]
    call = ToolCall.of("get_weather", PARIS, id="toolu_2")
    parts = (Reasoning("hm", "x"), Text("Let me look."), call)
    assert reply(*events) == Reply(parts, (), FinishReason.TOOL_CALLS, Usage(5, 9, 2))


def test_a_body_is_read_as_a_stream_is() -> None:
    content = [
        {"type": "thinking", "thinking": "hm", "signature": "x"},
        {"type": "redacted_thinking", "data": "x"},
        {"type": "text", "text": "Hi"},
        {"type": "tool_use", "id": "a", "name": "get_weather", "input": {"city": "Paris"}},
        {"type": "tool_use", "id": "b", "name": "ping", "input": {}},
    ]
    usage = {"input_tokens": 3, "output_tokens": 4, "cache_read_input_tokens": None}
    body = {"type": "message", "content": content, "stop_reason": "tool_use", "usage": usage}
    read = fold(events_of(body, TOOLS, make_id=numbered_id))
    calls = (ToolCall.of("get_weather", PARIS, id="a"), ToolCall.of("ping", "{}", id="b"))
    thoughts = (Reasoning("hm", "x"), Reasoning("", encrypted="x"))
    assert read == Reply((*thoughts, Text("Hi"), *calls), (), FinishReason.TOOL_CALLS, Usage(3, 4))


def test_an_input_that_came_whole_with_the_start_is_read() -> None:
    assert reply(START, *use(0, input={"city": "Paris"}), *end()).calls == (
        ToolCall.of("get_weather", PARIS, id="toolu_0"),
    )


def test_no_pieces_are_an_empty_object_where_the_tool_takes_one() -> None:
    read = reply(START, *use(0, name="ping"), *end())
    assert read.calls == (ToolCall.of("ping", "{}", id="toolu_0"),)
    assert codes(read) == ["empty_arguments"]


@pytest.mark.parametrize(
    "events",
    [
        [START, *use(0), *end()],
        [START, *use(0, name="ping"), *end("max_tokens")],
        [START, *use(0, name="ping")],
        [START, *use(0, '{"city": "Par'), *end("max_tokens")],
        [START, *use(0, "[1]"), *end()],
        [START, *use(0, input=[1]), *end()],
    ],
    ids=["the tool needs some", "cut off", "broken off", "cut off inside", "a list", "a list at the start"],
)
def test_other_arguments_are_not_handed_on(events: list[dict[str, Any]]) -> None:
    read = reply(*events)
    assert not read.calls
    assert len(read.incomplete) == 1
    assert "bad_arguments" in codes(read)


@pytest.mark.parametrize(
    "stop_reason, expected",
    [
        ("end_turn", FinishReason.STOP),
        ("stop_sequence", FinishReason.STOP),
        ("max_tokens", FinishReason.LENGTH),
        ("model_context_window_exceeded", FinishReason.LENGTH),
        ("tool_use", FinishReason.STOP),
        ("refusal", FinishReason.STOP),
        ("pause_turn", FinishReason.STOP),
    ],
)
def test_how_it_ended_follows_from_the_stop_reason_and_the_calls(stop_reason: str, expected: FinishReason) -> None:
    assert reply(START, *end(stop_reason)).finish is expected


def test_a_refusal_and_an_unknown_reason_are_pointed_out() -> None:
    assert codes(reply(START, *end("refusal"))) == ["refusal"]
    assert codes(reply(START, *end("pause_turn"))) == ["unknown_finish"]


def test_a_block_of_another_kind_is_pointed_out() -> None:
    assert codes(reply(START, *block(0, {"type": "server_tool_use"}), *end())) == ["unknown_block"]


def test_an_error_in_the_middle_is_reported_and_the_answer_does_not_look_finished() -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    read = reply(START, *block(0, {"type": "text", "text": "Hel"}), error)
    assert read.text == "Hel"
    assert read.finish is None
    assert [(note.code, note.message) for note in read.diagnostics] == [("engine_error", "Overloaded")]


KINDS = [
    "message_start",
    "content_block_start",
    "content_block_delta",
    "content_block_stop",
    "message_delta",
    "message",
]
KEYS = ["type", "index", "content_block", "delta", "usage", "message", "input", "partial_json", "id", "name", "content"]
leaves = (
    st.none()
    | st.booleans()
    | st.integers(-2, 2)
    | st.floats()
    | st.sampled_from([*KINDS, "message", "tool_use", "text"])
)
junk = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5),
    max_leaves=20,
)


@given(st.lists(st.dictionaries(st.sampled_from(KEYS), junk), max_size=5))
def test_no_event_makes_the_decoder_raise(events: list[dict[str, Any]]) -> None:
    reply(*events)
