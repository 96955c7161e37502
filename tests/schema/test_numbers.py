"""Numbers have one meaning, from the grammar through the parser and the validator to what is handed on."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule import Reply, ToolCall, ToolChoice, ToolDefinition
from ferrule.core.json_text import MAX_DIGITS, loads, loads_exact
from ferrule.formats import get_format, parse, render
from ferrule.rules.lark import emit_lark
from ferrule.rules.matcher import ByteMatcher
from ferrule.schema.admission import admit
from ferrule.schema.checker import checker_for
from ferrule.wire.rule_builder import bind

FORMATS = ("hermes", "qwen_xml", "dsml_v4", "pythonic", "gemma4")
# Each text, whether it is a number, and whether it is an integer.
NUMBERS = {
    "0": (True, True),
    "-0": (True, True),
    "-0.0": (True, True),
    "1.0": (True, True),
    "1e2": (True, True),
    "0e999": (True, True),
    "1.5e1": (True, True),
    "1.5": (True, False),
    "1e308": (True, True),
    "5e-324": (True, False),
    "1e400": (False, False),
    "-1e400": (False, False),
    "1e-400": (False, False),
    "10000000000000000.5": (False, False),
    "123456789012345678901234567890": (True, True),
    "9" * MAX_DIGITS: (True, True),
    "-" + "9" * MAX_DIGITS: (True, True),
    "9" * (MAX_DIGITS + 1): (False, False),
}
IDS = [text if len(text) < 40 else f"{text[:3]}... ({len(text)})" for text in NUMBERS]


def tool_of(kind: str) -> ToolDefinition:
    schema: dict[str, Any] = {"type": "object", "properties": {"x": {"type": kind}}, "required": ["x"]}
    return ToolDefinition("t", "", admit(schema))


def text_with(name: str, number: str) -> str:
    form = get_format(name)
    text = render(form, Reply.of(ToolCall.of("t", {"x": 777}, id=form.ids.sample("t", 0))), [tool_of("integer")])
    return text.replace("777", number)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("number", NUMBERS, ids=IDS)
def test_parser_and_validator_agree_in_every_encoding(name: str, number: str) -> None:
    for kind, fits in zip(("number", "integer"), NUMBERS[number], strict=True):
        (call,) = parse(get_format(name), text_with(name, number), [tool_of(kind)]).calls
        faults = checker_for(tool_of(kind).parameters).faults_of_text(call.function.arguments)
        assert (not faults) == fits, (kind, faults)
        if fits:
            assert call.function.arguments == f'{{"x": {number}}}'
            assert call.arguments == {"x": loads(number)}


@pytest.mark.parametrize("name", FORMATS)
def test_the_grammar_writes_whole_numbers_without_a_fraction_and_every_other_number(name: str) -> None:
    for kind in ("number", "integer"):
        matcher = ByteMatcher(emit_lark(bind(get_format(name), [tool_of(kind)], ToolChoice.required(), parallel=False)))
        for number in ("0", "-0", "1.5", "5e-324", "1e308", "9" * MAX_DIGITS):
            is_plain = not any(letter in number for letter in ".e")
            assert matcher.accepts(text_with(name, number)) == (kind == "number" or is_plain), number


@pytest.mark.parametrize("text", ["1e400", "1e-400", "9" * (MAX_DIGITS + 1), "[10000000000000000.5]"])
def test_a_number_that_cannot_be_read_is_a_value_error_and_not_another_number(text: str) -> None:
    with pytest.raises(ValueError, match="the number"):
        loads_exact(text)
