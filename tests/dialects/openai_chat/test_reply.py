"""What real servers of OpenAI's chat API send, and how Ferrule decodes it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialects.replies import TOOLS, numbered_id, values
from ferrule import CallStart, Event, FinishReason, Reasoning, Reply, Text, ToolCall, Usage, fold
from ferrule.dialects.openai_chat.reply_decoder import ReplyDecoder, events_of

PARIS = '{"city": "Paris"}'


def piece(index: int | None = 0, *, id: Any = None, name: Any = None, arguments: Any = None) -> dict[str, Any]:
    call = {"index": index, "id": id, "function": {"name": name, "arguments": arguments}}
    return {key: value for key, value in call.items() if value is not None}


def chunk(*calls: dict[str, Any], finish: str | None = None, **delta: Any) -> dict[str, Any]:
    message = {**delta, **({"tool_calls": list(calls)} if calls else {})}
    return {"choices": [{"index": 0, "delta": message, "finish_reason": finish}]}


DONE = chunk(finish="tool_calls")


def events(*chunks: dict[str, Any]) -> list[Event]:
    decoder = ReplyDecoder(TOOLS, make_id=numbered_id)
    return [event for chunk in chunks for event in decoder.feed(chunk)] + decoder.close()


def reply(*chunks: dict[str, Any]) -> Reply:
    return fold(events(*chunks))


def whole(message: dict[str, Any], finish: str = "stop") -> Reply:
    body = {"choices": [{"index": 0, "message": message, "finish_reason": finish}]}
    return fold(events_of(body, TOOLS, make_id=numbered_id))


def codes(reply: Reply) -> list[str]:
    return [note.code for note in reply.diagnostics]


WEATHER = (ToolCall.of("get_weather", PARIS, id="a"),)
MANNERS: dict[str, list[dict[str, Any]]] = {
    "as OpenAI does": [
        chunk(piece(id="a", name="get_weather", arguments=""), role="assistant", content=None),
        chunk(piece(arguments='{"city": ')),
        chunk(piece(arguments='"Paris"}')),
        DONE,
    ],
    "all at once": [chunk(piece(id="a", name="get_weather", arguments=PARIS), finish="tool_calls")],
    "without an index": [
        chunk(piece(None, id="a", name="get_weather")),
        chunk(piece(None, arguments=PARIS[:9])),
        chunk(piece(None, arguments=PARIS[9:])),
        DONE,
    ],
    "the id and the name again in every piece": [
        chunk(piece(id="a", name="get_weather", arguments=PARIS[:9])),
        chunk(piece(id="a", name="get_weather", arguments=PARIS[9:])),
        DONE,
    ],
    "a new id in every piece": [
        chunk(piece(id="a", name="get_weather", arguments=PARIS[:9])),
        chunk(piece(id="b", arguments=PARIS[9:])),
        DONE,
    ],
    "the name in pieces": [
        chunk(piece(id="a", name="get_")),
        chunk(piece(name="weather")),
        chunk(piece(arguments=PARIS)),
        DONE,
    ],
    "the name in pieces of which the first is a tool": [
        chunk(piece(id="a", name="get")),
        chunk(piece(name="_weather", arguments=PARIS)),
        DONE,
    ],
    "arguments as an object": [chunk(piece(id="a", name="get_weather", arguments={"city": "Paris"})), DONE],
    "stop though a call was made": [chunk(piece(id="a", name="get_weather", arguments=PARIS), finish="stop")],
    "empty pieces": [
        chunk(piece(id="a", name="get_weather", arguments="")),
        chunk(piece(id="", name="", arguments="")),
        chunk(piece(arguments=PARIS)),
        chunk(content=""),
        DONE,
    ],
}


@pytest.mark.parametrize("manner", MANNERS)
def test_one_call_is_read_in_every_variant(manner: str) -> None:
    read = reply(*MANNERS[manner])
    assert read.parts == WEATHER
    assert read.finish is FinishReason.TOOL_CALLS
    assert not read.diagnostics


TWO: dict[str, list[dict[str, Any]]] = {
    "one after another": [
        chunk(piece(0, id="a", name="get_weather", arguments=PARIS)),
        chunk(piece(1, id="b", name="get", arguments="{}")),
        DONE,
    ],
    "side by side": [
        chunk(piece(0, id="a", name="get_weather"), piece(1, id="b", name="get")),
        chunk(piece(1, arguments="{")),
        chunk(piece(0, arguments=PARIS)),
        chunk(piece(1, arguments="}")),
        DONE,
    ],
    "both with the same index": [
        chunk(piece(0, id="a", name="get_weather", arguments=PARIS)),
        chunk(piece(0, id="b", name="get", arguments="{}")),
        DONE,
    ],
    "both without an index": [
        chunk(piece(None, id="a", name="get_weather", arguments=PARIS)),
        chunk(piece(None, id="b", name="get", arguments="{}")),
        DONE,
    ],
}


@pytest.mark.parametrize("manner", TWO)
def test_two_calls_are_kept_apart(manner: str) -> None:
    assert reply(*TWO[manner]).parts == (*WEATHER, ToolCall.of("get", "{}", id="b"))


def test_two_calls_without_index_and_id_are_kept_apart_and_get_ids() -> None:
    calls = [piece(None, name="get_weather", arguments=PARIS), piece(None, name="get", arguments="{}")]
    read = reply(chunk(*calls), DONE)
    assert [(call.id, call.name) for call in read.calls] == [("made_0", "get_weather"), ("made_1", "get")]
    assert whole({"tool_calls": calls}).calls == read.calls


def test_a_call_is_announced_as_soon_as_its_name_is_certain() -> None:
    decoder = ReplyDecoder(TOOLS, make_id=numbered_id)
    assert decoder.feed(chunk(piece(id="a", name="get_weather"))) == [CallStart(0, "a", "get_weather")]


@pytest.mark.parametrize("text", ["{", '{"city": ', "[1]", "12", '"{}"', "{}{}", "{'city': 1}", "null", '{"a": NaN}'])
def test_arguments_that_are_no_object_never_become_one(text: str) -> None:
    read = reply(chunk(piece(id="a", name="ping", arguments=text)), DONE)
    assert not read.calls
    assert [call.function.arguments for call in read.incomplete] == [text]
    assert codes(read) == ["bad_arguments"]
    assert read.finish is FinishReason.STOP


@given(values)
def test_arguments_given_as_a_value_are_complete_exactly_when_they_are_an_object(value: Any) -> None:
    read = whole({"tool_calls": [piece(None, id="a", name="get", arguments=value)]})
    if isinstance(value, dict):
        assert [call.arguments for call in read.calls] == [value]
    elif not isinstance(value, str):
        assert not [call for call in read.calls if call.arguments]


def test_no_arguments_are_an_empty_object_with_a_diagnostic_if_the_tool_takes_one() -> None:
    read = reply(chunk(piece(id="a", name="ping", arguments="")), DONE)
    assert read.calls == (ToolCall.of("ping", "{}", id="a"),)
    assert codes(read) == ["empty_arguments"]


@pytest.mark.parametrize(
    "chunks",
    [
        [chunk(piece(id="a", name="get_weather", arguments="")), DONE],
        [chunk(piece(id="a", name="unknown", arguments="")), DONE],
        [chunk(piece(id="a", name="ping", arguments="")), chunk(finish="length")],
        [chunk(piece(id="a", name="ping", arguments=""))],
        [chunk(piece(id="a", name="ping", arguments="")), {"error": {"message": "out of memory"}}],
    ],
    ids=["the tool needs some", "no such tool", "cut off", "broken off", "the engine failed"],
)
def test_otherwise_no_arguments_are_bad_arguments(chunks: list[dict[str, Any]]) -> None:
    read = reply(*chunks)
    assert not read.calls
    assert "bad_arguments" in codes(read)


def test_a_length_stop_wins_and_the_cut_off_call_is_not_handed_on() -> None:
    read = reply(
        chunk(piece(0, id="a", name="get_weather", arguments=PARIS)),
        chunk(piece(1, id="b", name="get", arguments='{"key": "x'), finish="length"),
    )
    assert read.calls == WEATHER
    assert [call.id for call in read.incomplete] == ["b"]
    assert read.finish is FinishReason.LENGTH


def test_text_reasoning_and_usage_are_read() -> None:
    read = reply(
        chunk(role="assistant", content=None, reasoning_content="hm", reasoning="hm"),
        chunk(reasoning="m"),
        chunk(content="Hel"),
        chunk(content="lo", finish="stop"),
        {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}},
    )
    assert read == Reply((Reasoning("hmm"), Text("Hello")), (), FinishReason.STOP, Usage(3, 4))


def test_content_as_a_list_of_parts_is_read() -> None:
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    read = whole({"content": [thinking, {"type": "text", "text": "Hello"}]})
    assert read.parts == (Reasoning("hm"), Text("Hello"))


def test_a_refusal_is_text_and_is_pointed_out_once() -> None:
    read = reply(chunk(refusal="I "), chunk(refusal="won't."), chunk(finish="stop"))
    assert read.text == "I won't."
    assert codes(read) == ["refusal"]


def test_the_older_function_call_is_a_call() -> None:
    chunks = [chunk(function_call={"name": "get_weather", "arguments": PARIS[:5]})]
    chunks += [chunk(function_call={"arguments": PARIS[5:]}), chunk(finish="function_call")]
    assert reply(*chunks).calls == (ToolCall.of("get_weather", PARIS, id="made_0"),)
    message = {"content": None, "function_call": {"name": "get_weather", "arguments": PARIS}}
    assert whole(message, "function_call").calls == reply(*chunks).calls


@pytest.mark.parametrize("error", [{"message": "out of memory", "code": 500}, "out of memory"])
def test_an_error_in_the_middle_is_reported_and_the_answer_does_not_look_finished(error: Any) -> None:
    read = reply(chunk(content="Hel"), {"error": error})
    assert read.text == "Hel"
    assert read.finish is None
    assert [(note.code, note.message) for note in read.diagnostics] == [("engine_error", "out of memory")]


def test_a_stream_without_a_finish_reason_broke_off() -> None:
    read = reply(chunk(content="Hel"))
    assert read.finish is None
    assert codes(read) == ["broken_off"]


@pytest.mark.parametrize("reason, code", [("content_filter", "content_filter"), ("abort", "unknown_finish")])
def test_an_odd_finish_reason_is_pointed_out(reason: str, code: str) -> None:
    assert codes(reply(chunk(content="x", finish=reason))) == [code]


def test_what_comes_after_the_end_of_a_call_is_kept_as_a_diagnostic() -> None:
    first, second = piece(0, id="a", name="get_weather", arguments=PARIS), piece(1, id="b", name="get", arguments="{}")
    read = reply(chunk(first), chunk(second), chunk(piece(0, arguments="more", name="other")), DONE)
    assert [(note.code, note.text) for note in read.diagnostics] == [("late_name", "other"), ("late_arguments", "more")]


def test_a_call_without_a_name_is_kept_as_a_diagnostic() -> None:
    read = reply(chunk(piece(id="a", arguments=PARIS)), DONE)
    assert not read.parts
    assert [(note.code, note.text) for note in read.diagnostics] == [("nameless_call", PARIS)]


KEYS = ["choices", "delta", "message", "tool_calls", "function", "name", "arguments", "index", "id", "usage", "content"]
KEYS += ["finish_reason", "ferrule", "receipts", "incomplete", "diagnostics", "error"]
junk = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5),
    max_leaves=20,
)


@given(st.lists(st.dictionaries(st.sampled_from(["choices", "error", "usage", "ferrule"]), junk), max_size=4))
def test_no_chunk_makes_the_decoder_raise(chunks: list[dict[str, Any]]) -> None:
    fold(events(*chunks))
