"""Rendering: what a format cannot express is refused by name, and results are written as the family expects."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ferrule import Reasoning, Reply, ToolCall, ToolResult, UnrenderableError
from ferrule.formats import get_format, parse, render, render_results
from wire.weather import TOOLS

ROME = ToolCall.of("get_weather", {"city": "Rome"})
MARKED = '<tool_call>\n{"name": "ping", "arguments": {}}\n</tool_call>'


def of(arguments: str) -> ToolCall:
    return ToolCall.of("get_weather", arguments)


REFUSALS = [
    ("text after a call", "hermes", Reply.of(ROME, "done"), "text", "it cannot be written after a call"),
    ("text after a call", "mistral_v13", Reply.of(ROME, "done"), "text", "it cannot be written after a call"),
    ("reasoning after text", "hermes", Reply.of("hi", Reasoning("hm")), "reasoning", "it cannot be written after text"),
    (
        "reasoning without markers",
        "gigachat31",
        Reply.of(Reasoning("hm")),
        "reasoning",
        "it cannot be written in this format",
    ),
    ("calls before reasoning", "gemma4", Reply.of(ROME, Reasoning("hm")), "reasoning", "after a call"),
    ("too many calls", "gigachat31", Reply.of(ROME, ROME), "2 calls", "allows 1 per turn"),
    ("a cut-off call", "hermes", Reply.of(replace(ROME, complete=False)), "'get_weather'", "it was cut off"),
    ("an id of the wrong form", "mistral_v3", Reply.of(replace(ROME, id="call_1")), "'get_weather'", "nine_alnum"),
    ("an id of another tool", "kimi_k2", Reply.of(replace(ROME, id="functions.ping:0")), "'get_weather'", "counter"),
    ("a letter for a counter", "cohere_action", Reply.of(replace(ROME, id="a")), "'get_weather'", "(counter)"),
    ("half a JSON text", "hermes", Reply.of(of('{"city": "Ro')), "'get_weather'", "not JSON"),
    ("no JSON text at all", "hermes", Reply.of(of("")), "'get_weather'", "not JSON"),
    ("NaN", "hermes", Reply.of(of('{"days": NaN}')), "'get_weather'", "not JSON"),
    ("a key twice", "hermes", Reply.of(of('{"a": 1, "a": 2}')), "'get_weather'", "twice"),
    ("an array", "qwen_xml", Reply.of(of("[1]")), "'get_weather'", "not an object"),
    ("a number", "pythonic", Reply.of(of("3")), "'get_weather'", "not an object"),
    ("an array behind JSON", "hermes", Reply.of(of("[1]")), "'get_weather'", ""),
    ("a string behind JSON", "deepseek_v31", Reply.of(of('"x"')), "'get_weather'", ""),
    ("a number for a string", "qwen_xml", Reply.of(of('{"city": 5}')), "'get_weather'", "expects string"),
    ("a word for a number", "glm45", Reply.of(of('{"days": "two"}')), "'get_weather'", "expects integer"),
    ("a key with the quote mark", "gemma4", Reply.of(of('{"a <|\\"|>": 1}')), "'get_weather'", "no escape for that"),
    ("a tool that is not offered", "bare_json", Reply.of(ToolCall.of("nobody")), "'nobody'", ""),
    ("a name that ends its tag", "qwen_xml", Reply.of(ToolCall.of("a>b")), "'a>b'", ""),
    ("a call in the text", "hermes", Reply.of(f"look: {MARKED}"), "text", "parses as markup"),
    ("a closer in the text", "hermes", Reply.of("see </tool_call>"), "text", "parses as markup"),
    ("a closer in reasoning", "hermes", Reply.of(Reasoning("so </think> then")), "reasoning", "parses as markup"),
    ("a stop in the text", "hermes", Reply.of("<|im_end|>"), "text", "parses as markup"),
]


@pytest.mark.parametrize(
    "name, reply, where, why", [row[1:] for row in REFUSALS], ids=[f"{row[1]}: {row[0]}" for row in REFUSALS]
)
def test_what_cannot_be_written_is_refused_by_name(name: str, reply: Reply, where: str, why: str) -> None:
    with pytest.raises(UnrenderableError) as refusal:
        render(get_format(name), reply, TOOLS)
    assert where in refusal.value.where
    assert why in str(refusal.value)


@pytest.mark.parametrize("name, id", [("mistral_v3", "Zz09aBcDe"), ("cohere_action", "7"), ("apriel", "anything")])
def test_an_id_of_the_right_form_is_written_and_read_verbatim(name: str, id: str) -> None:
    form = get_format(name)
    text = render(form, Reply.of(replace(ROME, id=id)), TOOLS)
    assert [call.id for call in parse(form, text, TOOLS).calls] == [id]


def test_an_empty_id_is_made_where_the_wire_has_one_and_counts_on_over_the_conversation() -> None:
    kimi = get_format("kimi_k2")
    text = render(kimi, Reply.of(ROME, ROME), TOOLS, calls_before=3)
    assert [call.id for call in parse(kimi, text).calls] == ["functions.get_weather:3", "functions.get_weather:4"]
    mistral = get_format("mistral_v3")
    call_id = parse(mistral, render(mistral, Reply.of(ROME), TOOLS)).calls[0].id
    assert mistral.ids.fits(call_id, "get_weather")


def test_an_id_is_left_out_where_the_wire_has_no_place_for_it() -> None:
    assert "call_xyz" not in render(get_format("hermes"), Reply.of(replace(ROME, id="call_xyz")), TOOLS)


def test_arguments_are_written_in_one_spelling_with_numbers_as_they_were() -> None:
    digits = "1234567890" * 4
    call = ToolCall.of("find", f'{{"a":1.0,"b":1e3,\n"c":{digits}}}')
    text = render(get_format("hermes"), Reply.of(call))
    assert f'"arguments": {{"a": 1.0, "b": 1e3, "c": {digits}}}' in text
    assert render(get_format("pythonic"), Reply.of(call)) == f"[find(a=1.0, b=1e3, c={digits})]"


def test_harmony_writes_parts_in_the_order_of_the_reply() -> None:
    form = get_format("harmony")
    reply = Reply.of("first", ROME, Reasoning("hm"), "last")
    text = render(form, reply, TOOLS)
    assert text.index("first") < text.index("Rome") < text.index("hm") < text.index("<|channel|>final<|message|>last")


def test_a_reply_without_words_is_an_empty_text() -> None:
    assert render(get_format("hermes"), Reply()) == render(get_format("hermes"), Reply.of("", Reasoning(""))) == ""


RESULTS = [
    ToolResult("abcdefg00", "get_weather", {"sky": "clear"}),
    ToolResult("abcdefg01", "get_wind", 'from "N"'),
]
WRITTEN = {
    "hermes": '<tool_response>\n{"sky": "clear"}\n</tool_response>\n<tool_response>\nfrom "N"\n</tool_response>',
    "mistral_v3": '[TOOL_RESULTS]{"content": {"sky": "clear"}, "call_id": "abcdefg00"}[/TOOL_RESULTS]'
    '[TOOL_RESULTS]{"content": "from \\"N\\"", "call_id": "abcdefg01"}[/TOOL_RESULTS]',
    "mistral_v7": '[TOOL_RESULTS]abcdefg00[TOOL_CONTENT]{"sky": "clear"}[/TOOL_RESULTS]'
    '[TOOL_RESULTS]abcdefg01[TOOL_CONTENT]from "N"[/TOOL_RESULTS]',
    "llama3": '{"sky": "clear"}\n"from \\"N\\""',
    "kimi_k2": '## Return of abcdefg00\n{"sky": "clear"}\n## Return of abcdefg01\nfrom "N"',
    "harmony": '<|start|>functions.get_weather<|channel|>commentary to=assistant<|message|>{"sky": "clear"}<|end|>'
    '<|start|>functions.get_wind<|channel|>commentary to=assistant<|message|>from "N"<|end|>',
    "deepseek_v3": '<｜tool▁outputs▁begin｜><｜tool▁output▁begin｜>{"sky": "clear"}<｜tool▁output▁end｜>\n'
    '<｜tool▁output▁begin｜>from "N"<｜tool▁output▁end｜><｜tool▁outputs▁end｜>',
}


@pytest.mark.parametrize("name", WRITTEN)
def test_results_are_written_as_the_family_reads_them(name: str) -> None:
    assert render_results(get_format(name), RESULTS) == WRITTEN[name]
