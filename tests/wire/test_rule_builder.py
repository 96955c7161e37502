"""The rule of a request: tool choice, parallel calls, reasoning, and an answer constrained by a schema."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ferrule import DefinitionError, FormatError, Reply, ToolCall, ToolChoice
from ferrule.core.json_text import dumps
from ferrule.formats import get_format
from ferrule.rules.lark import emit_lark
from ferrule.rules.matcher import ByteMatcher
from ferrule.wire.parser import parse
from ferrule.wire.renderer import render
from ferrule.wire.rule_builder import ReasoningMode, bind
from wire.weather import TOOLS

HERMES = get_format("hermes")
PING = '<tool_call>\n{"name": "ping", "arguments": {}}\n</tool_call>'
ROME = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome"}}\n</tool_call>'
ANSWER = {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]}


AUTO = ToolChoice.auto()


def matcher(choice: ToolChoice = AUTO, **options: Any) -> ByteMatcher:
    return ByteMatcher(emit_lark(bind(HERMES, TOOLS, choice, **options)))


def test_auto_lets_the_model_talk_call_or_do_both() -> None:
    rule = matcher()
    assert all(map(rule.accepts, ("Hello.", PING, f"Let me look.\n{ROME}\n{PING}", f"<think>\nhm\n</think>\n\n{PING}")))
    assert not rule.accepts('<tool_call>\n{"name": "other", "arguments": {}}\n</tool_call>')


def test_none_lets_it_only_talk() -> None:
    rule = matcher(ToolChoice.none())
    assert rule.accepts("Hello.")
    assert not rule.accepts(PING)


def test_required_lets_it_only_call() -> None:
    rule = matcher(ToolChoice.required())
    assert rule.accepts(ROME)
    assert not rule.accepts("Hello.")
    assert not rule.accepts(f"Hello.\n{ROME}")


def test_one_lets_it_call_that_tool_and_no_other() -> None:
    rule = matcher(ToolChoice.one("ping"))
    assert rule.accepts(PING)
    assert not rule.accepts(ROME)


def test_an_allowed_subset_still_lets_it_talk() -> None:
    rule = matcher(ToolChoice.allowed(["ping"]))
    assert rule.accepts("Hello.")
    assert rule.accepts(PING)
    assert not rule.accepts(ROME)


def test_without_parallel_calls_there_is_at_most_one() -> None:
    assert matcher(ToolChoice.required()).accepts(f"{PING}\n{ROME}")
    assert not matcher(ToolChoice.required(), parallel=False).accepts(f"{PING}\n{ROME}")


def test_reasoning_can_be_forbidden_or_be_open_already() -> None:
    assert not matcher(reasoning=ReasoningMode.OFF).accepts(f"<think>\nhm\n</think>\n\n{PING}")
    prefilled = matcher(reasoning=ReasoningMode.PREFILLED)
    assert prefilled.accepts(f"hm\n</think>\n\n{PING}")
    assert not prefilled.accepts(PING)


def test_reasoning_that_the_family_does_not_have_cannot_be_open_already() -> None:
    with pytest.raises(FormatError, match="no reasoning"):
        bind(get_format("xlam"), TOOLS, reasoning=ReasoningMode.PREFILLED)


def test_tools_and_an_answer_bound_by_a_schema_are_one_rule() -> None:
    rule = matcher(response_schema=ANSWER)
    assert rule.accepts('{"sum": 3}')
    assert rule.accepts(PING)
    assert not rule.accepts("Hello.")
    assert not rule.accepts('{"sum": "three"}')


def test_arguments_must_match_the_schema_and_be_declared() -> None:
    rule = matcher(ToolChoice.required())
    for arguments in ("{}", '{"city": 1}', '{"city": "Rome", "days": "two"}', '{"city": "Rome", "mood": 1}'):
        assert not rule.accepts(f'<tool_call>\n{{"name": "get_weather", "arguments": {arguments}}}\n</tool_call>')


def test_a_choice_of_a_tool_that_is_not_offered_raises_before_anything_is_generated() -> None:
    with pytest.raises(DefinitionError, match="unknown tools: other"):
        bind(HERMES, TOOLS, ToolChoice.one("other"))


def test_equal_requests_have_equal_fingerprints_and_others_have_not() -> None:
    same = {bind(HERMES, TOOLS).fingerprint for _ in range(3)}
    assert len(same) == 1
    assert bind(HERMES, TOOLS[:1]).fingerprint not in same
    assert bind(HERMES, TOOLS, ToolChoice.required()).fingerprint not in same


@pytest.mark.parametrize("name", ["bare_json", "fenced_json", "llama3", "pythonic", "xlam"])
@pytest.mark.parametrize("choice", [ToolChoice.auto(), ToolChoice.none()], ids=["auto", "none"])
def test_where_a_name_alone_makes_a_call_free_text_cannot_hold_one(name: str, choice: ToolChoice) -> None:
    format = get_format(name)
    call = render(format, Reply.of(ToolCall.of("get_weather", {"city": "Paris", "days": 2})), TOOLS)
    rule = ByteMatcher(emit_lark(bind(format, TOOLS, choice)))
    assert rule.accepts("Well: the tool is called get_weather.")
    assert not rule.accepts(f"Well: {call}")


@pytest.mark.parametrize("name", ["bare_json", "fenced_json", "llama3", "xlam"])
@pytest.mark.parametrize("indent", [2, 4])
def test_a_call_that_begins_with_line_breaks_keeps_its_name(name: str, indent: int) -> None:
    """Masked away from the name, a model writes a name that it did not mean."""
    format = get_format(name)
    call = ToolCall.of("get_weather", {"city": "Paris", "days": 2})
    canonical = render(format, Reply.of(call), TOOLS)
    start = canonical.index("{")
    document, end = json.JSONDecoder().raw_decode(canonical[start:])
    arguments = next(key for key, value in document.items() if isinstance(value, dict))
    pad = " " * indent
    spread = f'{{\n{pad}"name": "get_weather",\n{pad}"{arguments}": {dumps(document[arguments])}\n}}'
    text = canonical[:start] + spread + canonical[start + end :]
    assert ByteMatcher(emit_lark(bind(format, TOOLS))).accepts(text)
    assert parse(format, text, TOOLS).calls[0].arguments == call.arguments
