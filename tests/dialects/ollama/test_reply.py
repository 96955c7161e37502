"""Ollama's answers, and the text of a forced call in any pieces."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialects.replies import TOOLS, arguments, numbered_id
from ferrule import FinishReason, Reasoning, Reply, Text, ToolCall, Usage, fold
from ferrule.dialects.ollama.reply_decoder import ReplyDecoder, events_of

DONE = {"message": {"content": ""}, "done": True, "done_reason": "stop", "prompt_eval_count": 3, "eval_count": 4}


def decode_stream(**message: Any) -> dict[str, Any]:
    return {"model": "m", "message": {"role": "assistant", **message}, "done": False}


def reply(*chunks: dict[str, Any], forced: bool = False) -> Reply:
    decoder = ReplyDecoder(TOOLS, make_id=numbered_id, forced=forced)
    return fold([event for chunk in chunks for event in decoder.feed(chunk)] + decoder.close())


def codes(reply: Reply) -> list[str]:
    return [note.code for note in reply.diagnostics]


def test_thinking_text_calls_and_usage_are_read() -> None:
    call = {"function": {"index": 0, "name": "get_weather", "arguments": {"city": "Paris"}}}
    other = {"id": "c", "function": {"name": "ping", "arguments": {}}}
    read = reply(
        decode_stream(content="", thinking="hm"),
        decode_stream(content="Hi"),
        decode_stream(content="", tool_calls=[call, other]),
        DONE,
    )
    calls = (ToolCall.of("get_weather", '{"city": "Paris"}', id="made_0"), ToolCall.of("ping", "{}", id="c"))
    assert read == Reply((Reasoning("hm"), Text("Hi"), *calls), (), FinishReason.TOOL_CALLS, Usage(3, 4))
    body = {**DONE, "message": {"content": "Hi", "thinking": "hm", "tool_calls": [call, other]}}
    assert fold(events_of(body, TOOLS, make_id=numbered_id)) == read


def test_calls_in_several_objects_are_several_calls() -> None:
    one = decode_stream(tool_calls=[{"function": {"index": 0, "name": "ping", "arguments": {}}}])
    assert [call.id for call in reply(one, one, DONE).calls] == ["made_0", "made_1"]


@pytest.mark.parametrize("arguments", [None, [1], "nonsense", float("inf")])
def test_arguments_that_are_no_object_never_become_one(arguments: Any) -> None:
    read = reply(decode_stream(tool_calls=[{"function": {"name": "get_weather", "arguments": arguments}}]), DONE)
    assert not read.calls
    assert codes(read) == ["bad_arguments"]


def test_a_length_stop_is_one() -> None:
    assert reply(decode_stream(content="x"), {**DONE, "done_reason": "length"}).finish is FinishReason.LENGTH


def test_an_error_and_a_stream_that_breaks_off_do_not_look_finished() -> None:
    failed = reply(decode_stream(content="x"), {"error": "out of memory"})
    assert (failed.finish, codes(failed)) == (None, ["engine_error"])
    broken = reply(decode_stream(content="x"))
    assert (broken.finish, codes(broken)) == (None, ["broken_off"])


@st.composite
def forced_texts(draw: st.DrawFn) -> str:
    name = draw(st.sampled_from([*(tool.name for tool in TOOLS), "unknown"]))
    space = draw(st.sampled_from(["", " ", "\n  "]))
    key = draw(st.sampled_from(["arguments", "parameters"]))
    text = f'{space}{{{space}"name":{space}"{name}",{space}"{key}":{space}{draw(arguments)}{space}}}{space}'
    return text[: draw(st.integers(0, len(text)))] if draw(st.booleans()) else text


@given(forced_texts(), st.lists(st.integers(0, 80)))
def test_any_cut_of_a_forced_call_gives_the_same_reply(text: str, cuts: list[int]) -> None:
    places = sorted({0, *(cut for cut in cuts if cut < len(text)), len(text)})
    whole = reply(decode_stream(content=text), DONE, forced=True)
    assert reply(*(decode_stream(content=text[a:b]) for a, b in pairwise(places)), DONE, forced=True) == whole
    assert reply(*(decode_stream(content=character) for character in text), DONE, forced=True) == whole


@given(st.sampled_from(TOOLS), arguments, st.sampled_from(["arguments", "parameters"]))
def test_a_forced_call_is_read_to_the_letter(tool: Any, json: str, key: str) -> None:
    for text in (f'{{"name": "{tool.name}", "{key}": {json}}}', f'{{"{key}": {json}, "name": "{tool.name}"}}'):
        read = reply(decode_stream(content=text), DONE, forced=True)
        assert read.calls == (ToolCall.of(tool.name, json, id="made_0"),)
        assert not read.diagnostics
        assert not read.text


def test_a_forced_call_that_was_cut_off_is_not_handed_on() -> None:
    text = '{"name": "get_weather", "arguments": {"city": "Par'
    read = reply(decode_stream(content=text), {**DONE, "done_reason": "length"}, forced=True)
    assert [call.function.arguments for call in read.incomplete] == ['{"city": "Par']
    assert codes(read) == ["bad_arguments"]
    assert read.finish is FinishReason.LENGTH


@pytest.mark.parametrize(
    "text, code, rest",
    [
        ("I cannot.", "no_call", "I cannot."),
        ('{"name": 7, "arguments": {}}', "no_call", '{"name": 7, "arguments": {}}'),
        ("", "no_call", ""),
        ('{"name": "\\x", "arguments": {}}', "no_call", '{"name": "\\x", "arguments": {}}'),
        ('{"name": "ping", "arguments": {}} Done!', "text_after_call", "Done!"),
    ],
)
def test_what_is_no_call_is_kept_as_a_diagnostic(text: str, code: str, rest: str) -> None:
    read = reply(decode_stream(content=text), DONE, forced=True)
    assert [(note.code, note.text) for note in read.diagnostics] == [(code, rest)]


def test_broken_arguments_of_a_forced_call_are_kept_in_it() -> None:
    read = reply(decode_stream(content='{"name": "ping", "arguments": {a: 1}}'), DONE, forced=True)
    assert [call.function.arguments for call in read.incomplete] == ["{a: 1}}"]
