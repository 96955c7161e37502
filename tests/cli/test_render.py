import json

import pytest

from cli.command_line import run
from ferrule.wire.format import Example
from ferrule.wire.parser import parse
from ferrule.wire.registry import examples, get_format

CALL = {"name": "get_weather", "arguments": {"city": "Rome"}}
CANONICAL = [example for example in examples() if example.is_canonical]


@pytest.mark.parametrize("example", CANONICAL, ids=lambda example: example.format)
def test_what_parse_prints_renders_back_to_the_text(example: Example, tools_file: str) -> None:
    options = ("--format", example.format, "--tools", tools_file)
    parsed = run("parse", *options, stdin=example.text)
    rendered = run("render", *options, stdin=parsed.raw)
    assert (rendered.code, rendered.err) == (0, "")
    assert rendered.raw == example.text.encode()


@pytest.mark.parametrize("text", ["one\r\ntwo\rthree\n", "caf\u00e9 \U0001f600", ""])
def test_newlines_and_characters_go_through_unchanged(text: str) -> None:
    parsed = run("parse", "-f", "hermes", stdin=text)
    assert run("render", "-f", "hermes", stdin=parsed.raw).raw == text.encode()


def test_a_character_that_was_cut_in_the_middle_goes_through_unchanged() -> None:
    parsed = run("parse", "-f", "hermes", stdin=b"caf\xc3")
    assert json.loads(parsed.raw)["parts"] == [{"kind": "text", "text": "caf\udcc3"}]
    assert run("render", "-f", "hermes", stdin=parsed.raw).raw == b"caf\xc3"


def test_the_short_form_is_written_in_the_order_of_the_format() -> None:
    data = json.dumps({"calls": [CALL], "text": "Let me look.", "reasoning": "where?"})
    for name in ("hermes", "minicpm3", "harmony"):
        ran = run("render", "-f", name, stdin=data)
        assert ran.code == 0, ran.err
        reply = parse(get_format(name), ran.out)
        assert (reply.text, reply.reasoning, len(reply.calls)) == ("Let me look.", "where?", 1)


def test_arguments_may_be_json_text_as_the_openai_api_has_them() -> None:
    data = {"calls": [{**CALL, "arguments": '{"city": "Rome"}'}]}
    same = run("render", "-f", "hermes", stdin=json.dumps({"calls": [CALL]}))
    assert run("render", "-f", "hermes", stdin=json.dumps(data)).raw == same.raw


def test_numbers_stay_as_they_were_given() -> None:
    data = '{"calls": [{"name": "f", "arguments": {"a": 1.0, "b": 1e3}}]}'
    assert '{"a": 1.0, "b": 1e3}' in run("render", "-f", "hermes", stdin=data).out


def test_a_format_without_a_place_for_a_part_refuses_it_and_names_it() -> None:
    ran = run("render", "-f", "mistral_v3", stdin=json.dumps({"reasoning": "hm", "calls": [CALL]}))
    assert (ran.code, ran.raw) == (1, b"")
    assert ran.err.startswith("error: reasoning: ")


def test_converting_generates_new_ids_and_reports_dropped_parts() -> None:
    text = '<think>\nhm\n</think>\n\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome"}}\n</tool_call>'
    parsed = run("parse", "-f", "hermes", stdin=text)
    assert run("render", "-f", "mistral_v3", stdin=parsed.raw).code == 1
    ran = run("render", "-f", "mistral_v3", "--convert", stdin=parsed.raw)
    assert ran.code == 0
    assert ran.err == "note: reasoning is dropped: mistral_v3 does not support it\n"
    assert [call.name for call in parse(get_format("mistral_v3"), ran.out).calls] == ["get_weather"]


def test_a_call_that_was_cut_off_is_not_rendered() -> None:
    parsed = run("parse", "-f", "hermes", stdin='<tool_call>{"name": "f", "arguments": {"a": "b')
    ran = run("render", "-f", "hermes", stdin=parsed.raw)
    assert ran.code == 1
    assert "cut off" in ran.err


@pytest.mark.parametrize(
    "value",
    [
        "",
        "[]",
        "{}",
        "not JSON",
        "[" * 100_000,
        '{"parts": {}}',
        '{"parts": ["x"]}',
        '{"parts": [{"kind": "text"}]}',
        '{"parts": [{"kind": "text", "text": 5}]}',
        '{"parts": [{"kind": "video", "text": "x"}]}',
        '{"calls": [{"arguments": {}}]}',
        '{"calls": [{"name": "f", "id": 7}]}',
        '{"calls": [{"name": "f", "arguments": [1]}]}',
        '{"calls": [{"name": "f", "arguments": {"a": NaN}}]}',
        '{"calls": [{"name": "f", "arguments": "{"}]}',
        '{"text": "\\ud800"}',
    ],
)
def test_an_invalid_reply_is_an_error_with_a_message(value: str) -> None:
    ran = run("render", "-f", "hermes", stdin=value)
    assert (ran.code, ran.raw) == (1, b"")
    assert ran.err.startswith("error: ")
