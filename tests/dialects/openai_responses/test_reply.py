"""Streams and bodies of the Responses API, complete and with events left out."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialects.replies import TOOLS, numbered_id
from ferrule import FerruleError, FinishReason, Reasoning, Reply, Text, TextDelta, ToolCall, Usage, fold
from ferrule.dialects.openai_responses.event_encoder import EventEncoder
from ferrule.dialects.openai_responses.reply_decoder import ReplyDecoder, events_of
from ferrule.dialects.openai_responses.response_body import count_body

PARIS = '{"city": "Paris"}'
CALL = {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "get_weather", "arguments": PARIS}
MESSAGE = {"type": "message", "id": "m", "role": "assistant", "content": [{"type": "output_text", "text": "Hi"}]}
THOUGHT = {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "hm"}]}
USAGE = {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}


def end_events(*output: Any, status: str = "completed", **fields: Any) -> dict[str, Any]:
    response = {"object": "response", "status": status, "output": list(output), **fields}
    return {"type": f"response.{status}", "response": response}


def cut_reason(reason: str) -> dict[str, Any]:
    return end_events(status="incomplete", incomplete_details={"reason": reason})


def item(step: str, at: int, item: dict[str, Any]) -> dict[str, Any]:
    return {"type": f"response.output_item.{step}", "output_index": at, "item": item}


def delta(kind: str, at: int, text: str) -> dict[str, Any]:
    return {"type": f"response.{kind}.delta", "output_index": at, "delta": text}


def reply(*events: dict[str, Any]) -> Reply:
    decoder = ReplyDecoder(TOOLS, make_id=numbered_id)
    return fold([decoded for event in events for decoded in decoder.feed(event)] + decoder.close())


def codes(reply: Reply) -> list[str]:
    return [note.code for note in reply.diagnostics]


EVERYTHING = Reply(
    (Reasoning("hm"), Text("Hi"), ToolCall.of("get_weather", PARIS, id="c")), (), FinishReason.TOOL_CALLS, Usage(3, 4)
)
MANNERS: dict[str, list[dict[str, Any]]] = {
    "as OpenAI does": [
        delta("reasoning_summary_text", 0, "hm"),
        item("done", 0, THOUGHT),
        delta("output_text", 1, "H"),
        delta("output_text", 1, "i"),
        item("done", 1, MESSAGE),
        item("added", 2, {**CALL, "arguments": ""}),
        delta("function_call_arguments", 2, PARIS[:5]),
        delta("function_call_arguments", 2, PARIS[5:]),
        item("done", 2, CALL),
        end_events(THOUGHT, MESSAGE, CALL, usage=USAGE),
    ],
    "without the ends of items": [
        delta("reasoning_text", 0, "hm"),
        delta("output_text", 1, "Hi"),
        item("added", 2, {**CALL, "arguments": ""}),
        delta("function_call_arguments", 2, PARIS),
        end_events(usage=USAGE),
    ],
    "without deltas": [
        item("done", 0, THOUGHT),
        item("done", 1, MESSAGE),
        item("done", 2, CALL),
        end_events(THOUGHT, MESSAGE, CALL, usage=USAGE),
    ],
    "only the whole response": [end_events(THOUGHT, MESSAGE, CALL, usage=USAGE)],
    "arguments as an object": [
        end_events(THOUGHT, MESSAGE, {**CALL, "arguments": {"city": "Paris"}}, usage=USAGE),
    ],
}


@pytest.mark.parametrize("manner", MANNERS)
def test_an_answer_is_read_in_every_variant(manner: str) -> None:
    assert reply(*MANNERS[manner]) == EVERYTHING


def test_items_that_a_server_names_and_does_not_number_are_kept_apart() -> None:
    other = CALL | {"id": "fc_2", "call_id": "d", "arguments": '{"city": "Rome"}'}
    events: list[dict[str, Any]] = []
    for call in (CALL, other):
        events.append({"type": "response.output_item.added", "item": call | {"arguments": ""}})
    for call in (CALL, other):
        delta = {"item_id": call["id"], "delta": call["arguments"]}
        events.append({"type": "response.function_call_arguments.delta", **delta})
        events.append({"type": "response.output_item.done", "item": call})
    assert [call.arguments for call in reply(*events, end_events(CALL, other)).calls] == [
        {"city": "Paris"},
        {"city": "Rome"},
    ]


def test_a_body_is_read_as_a_stream_is() -> None:
    body = end_events(THOUGHT, MESSAGE, CALL, usage=USAGE)["response"]
    assert fold(events_of(body, TOOLS, make_id=numbered_id)) == EVERYTHING


@pytest.mark.parametrize(
    "events",
    [
        [end_events({**CALL, "arguments": ""})],
        [end_events({**CALL, "name": "ping", "arguments": ""}, status="incomplete")],
        [item("added", 0, {**CALL, "name": "ping", "arguments": ""})],
        [end_events({**CALL, "arguments": '{"city": "Pa'}, status="incomplete")],
        [end_events({**CALL, "arguments": "[1]"})],
    ],
    ids=["the tool needs some", "cut off", "broken off", "cut off inside", "a list"],
)
def test_arguments_that_are_no_object_are_not_handed_on(events: list[dict[str, Any]]) -> None:
    read = reply(*events)
    assert not read.calls
    assert len(read.incomplete) == 1
    assert "bad_arguments" in codes(read)


def test_no_arguments_are_an_empty_object_where_the_tool_takes_one() -> None:
    read = reply(end_events({**CALL, "name": "ping", "arguments": ""}))
    assert [call.arguments for call in read.calls] == [{}]
    assert codes(read) == ["empty_arguments"]


@pytest.mark.parametrize(
    "event, finish, code",
    [
        (cut_reason("max_output_tokens"), FinishReason.LENGTH, None),
        (cut_reason("content_filter"), FinishReason.STOP, "content_filter"),
        (end_events(status="failed", error={"code": "server_error", "message": "broke"}), None, "engine_error"),
        ({"type": "error", "message": "broke"}, None, "engine_error"),
        ({"error": {"message": "broke"}}, None, "engine_error"),
        (end_events({"type": "web_search_call"}), FinishReason.STOP, "unknown_item"),
    ],
)
def test_how_it_ended_is_read(event: dict[str, Any], finish: FinishReason | None, code: str | None) -> None:
    read = reply(event)
    assert read.finish is finish
    assert codes(read) == ([code] if code else [])


def test_a_refusal_is_text_and_is_pointed_out_once() -> None:
    read = reply(delta("refusal", 0, "I "), delta("refusal", 0, "won't."), end_events())
    assert read.text == "I won't."
    assert codes(read) == ["refusal"]


def test_an_error_ends_the_response_and_comes_back_as_one() -> None:
    encoder = EventEncoder(id="resp_1", model="m", created=7)
    events = [*encoder.feed(TextDelta("Hel")), *encoder.fail(FerruleError("broke", hint="Mend it."))]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    read = reply(*events)
    assert (read.text, read.finish) == ("Hel", None)
    assert [(note.code, note.message) for note in read.diagnostics] == [("engine_error", "broke. Mend it.")]


def test_an_error_before_any_output_still_begins_with_the_response() -> None:
    kinds = [event["type"] for event in EventEncoder(id="r", model="m", created=7).fail(FerruleError("broke"))]
    assert kinds == ["response.created", "response.in_progress", "response.failed"]


def test_a_count_of_tokens_has_its_body() -> None:
    assert count_body(7) == {"object": "response.input_tokens", "input_tokens": 7}


KEYS = [
    "type",
    "object",
    "output_index",
    "item",
    "delta",
    "response",
    "output",
    "arguments",
    "call_id",
    "name",
    "content",
]
KINDS = ["response.output_item.added", "response.output_item.done", "response.function_call_arguments.delta"]
words = st.sampled_from([*KINDS, "response.completed", "response", "function_call", "message", "reasoning"])
junk = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.floats() | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5),
    max_leaves=20,
)


@given(st.lists(st.dictionaries(st.sampled_from(KEYS), junk), max_size=5))
def test_no_event_makes_the_decoder_raise(events: list[dict[str, Any]]) -> None:
    reply(*events)
