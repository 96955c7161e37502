"""Text that is nested deeper than anything is read raises nothing, loses nothing, and is reported."""

from __future__ import annotations

import json

import pytest

from ferrule import Reply, fold
from ferrule.wire.call_reader import MAX_ENVELOPE_DEPTH
from ferrule.wire.drift import DriftReader
from ferrule.wire.format import Format
from ferrule.wire.parse_plan import opening_texts
from ferrule.wire.parser import Parser, parse
from ferrule.wire.registry import all_formats, get_format
from laws.hard_texts import deep_texts
from laws.replies import TOOLS
from sampling import sampled

FORMATS = all_formats()
HERMES = get_format("hermes")
CALL = '"name": "get_weather", "arguments": {"city": "Rome"}'


def read(form: Format, text: str) -> Reply:
    """Parse a text in one feed, with the readers that follow in an engine; check that each character came out."""
    parser, drift = Parser(form, TOOLS, trace=True), DriftReader(form, TOOLS)
    events = [*parser.feed(text), *parser.close()]
    drift.read(events)
    drift.close()
    assert "".join(text[span.start : span.end] for span in parser.spans) == text
    return fold(events)


@pytest.mark.parametrize("name", FORMATS)
def test_no_depth_raises_or_completes_a_call(name: str) -> None:
    form = FORMATS[name]
    for _, text in sampled("deep", [name], deep_texts(form, 981), 6):
        assert read(form, text).calls == ()


@pytest.mark.parametrize("name", ["hermes", "mistral_v3", "granite3", "apertus", "gemma4", "qwen_xml"])
def test_a_hundred_thousand_levels_are_like_a_thousand(name: str) -> None:
    form = FORMATS[name]
    for nesting in ('{"function": ', "["):
        assert read(form, opening_texts(form.calls)[0] + nesting * 100_000).calls == ()


@pytest.mark.parametrize(
    "text",
    [
        "<tool_call>" + '{"function": ' * 981,
        '<tool_call>{"arguments": ' + '{"a":' * 981,
        '<tool_call>{"arguments": {"a": ' + "[" * 981,
    ],
)
def test_a_call_that_is_nested_too_deep_is_text_with_a_diagnostic(text: str) -> None:
    reply = read(HERMES, text)
    assert [note.code for note in reply.diagnostics] == ["nested_too_deep"]
    assert reply.text == text


def test_a_started_call_that_is_nested_too_deep_is_incomplete_and_says_why() -> None:
    reply = read(HERMES, '<tool_call>{"name": "ping", "arguments": {"a": ' + "[" * 981)
    assert [(call.name, call.complete) for call in reply.incomplete] == [("ping", False)]
    assert [(note.code, note.message) for note in reply.diagnostics] == [("malformed_call", "nested deeper than 256")]


@pytest.mark.parametrize("depth", range(1, MAX_ENVELOPE_DEPTH))
def test_a_call_inside_envelopes_is_read(depth: int) -> None:
    text = "<tool_call>" + '{"function": ' * depth + "{" + CALL + "}" * (depth + 1) + "</tool_call>"
    (call,) = parse(HERMES, text, TOOLS).calls
    assert (call.name, call.arguments) == ("get_weather", {"city": "Rome"})


@pytest.mark.parametrize(
    "envelope",
    [
        f'{{"name": "ping", "function": {{{CALL}}}}}',
        f'{{"function": {{{CALL}}}, "name": "ping", "arguments": {{}}}}',
        f'{{"arguments": {{}}, "function": {{{CALL}}}}}',
        f'{{"arguments": {{}}, "type": "function", "function": {{{CALL}}}}}',
        '{"function": {"arguments": {"city": "x"}}, "name": "get_weather", "arguments": {"city": "y"}}',
        f'{{"type": "x", "function": {{"type": "y"}}, "arguments": {{}}, "function": {{{CALL}}}}}',
        f'{{"function": {{{CALL}, "function": {{{CALL}}}}}}}',
    ],
)
@pytest.mark.parametrize("name", ["hermes", "bare_json", "llama3", "xlam", "mistral_v3", "granite3"])
def test_an_envelope_that_gives_a_name_or_arguments_twice_is_no_complete_call(name: str, envelope: str) -> None:
    form = FORMATS[name]
    opener = form.calls.open.canonical if form.calls.open else "<tool_call>" if name == "hermes" else ""
    text = opener + envelope
    assert json.loads(envelope)
    assert parse(form, text, TOOLS).calls == ()
