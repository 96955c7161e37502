"""Members that a schema allows without listing them: every target admits them, in every way of writing arguments."""

from __future__ import annotations

import random
from typing import Any

import jsonschema
import llguidance
import pytest

from ferrule import Reply, ToolCall, ToolChoice, ToolDefinition
from ferrule.engines.text.skip import SkipGenerator
from ferrule.engines.text.skip_guard import SkipGuard
from ferrule.formats import all_formats, get_format, parse, render
from ferrule.rules.gbnf import emit_gbnf
from ferrule.rules.lark import emit_lark
from ferrule.rules.matcher import ByteMatcher
from ferrule.rules.rule import Rule
from ferrule.rules.skip.steps import SkipPlan
from ferrule.schema.admission import admit
from ferrule.wire.format import encoding_of
from ferrule.wire.rule_builder import bind
from laws.minded import NO_TOKENIZER, ScriptedModel
from laws.test_skip import emit, generated_text
from rules.gbnf_acceptor import Acceptor
from rules.vocabularies import tokenizer
from rules.walks import walk

LISTED: dict[str, Any] = {"id": {"type": "integer"}, "note": {"type": "string"}}
# Each schema, calls that fit it, and calls that no rule may admit.
SCHEMAS: dict[str, tuple[dict[str, Any], list[dict[str, Any]], list[dict[str, Any]]]] = {
    "a map of strings": (
        {"type": "object", "additionalProperties": {"type": "string"}},
        [{}, {"env": "prod"}, {"env": "prod", "a.b/c": "5"}],
        [],
    ),
    "a map of numbers": (
        {"type": "object", "additionalProperties": {"type": "number"}},
        [{"a": 1}, {"a": 1.5, "é": -2}],
        [{"a": "x"}, {"a": True}],
    ),
    "a map of objects": (
        {"type": "object", "additionalProperties": {"type": "object", "additionalProperties": {"type": "integer"}}},
        [{"a": {"b": 1, "c": 2}}],
        [{"a": {"b": "x"}}],
    ),
    "listed members and others": (
        {"type": "object", "properties": LISTED, "required": ["id"], "additionalProperties": {"type": "integer"}},
        [{"id": 1}, {"id": 1, "x": 2}, {"id": 1, "note": "n", "notes": 3, "x": 4}, {"id": 1, "no": 2}],
        [{"x": 2}, {"id": 1, "x": "y"}],
    ),
    "optional members and others": (
        {"type": "object", "properties": LISTED, "additionalProperties": True},
        [{"idx": 1}, {"id": 1, "x": [1, None]}, {"note": "n", "x": "y", "z": {}}],
        [],
    ),
    "patterns": (
        {
            "type": "object",
            "patternProperties": {"^x": {"type": "integer"}},
            "additionalProperties": {"type": "boolean"},
        },
        [{"x1": 1}, {"y": True}, {"x1": 1, "y": False}],
        [{"y": "z"}],
    ),
    "a required member that is not listed": (
        {"type": "object", "required": ["id"], "additionalProperties": {"type": "integer"}},
        [{"id": 1}, {"id": 1, "x": 2}],
        [{"x": 1}],
    ),
}
FORMATS = all_formats()
# One format of each encoding, and every format that writes one element for each argument.
SOME = sorted(
    {
        *{encoding_of(form): name for name, form in FORMATS.items()}.values(),
        *(name for name, form in FORMATS.items() if "tag" in encoding_of(form)),
    }
)
CASES = [(name, case) for name in SOME for case in SCHEMAS]


def tool_of(schema: dict[str, Any]) -> ToolDefinition:
    return ToolDefinition("t", "", admit(schema))


def rule_of(name: str, schema: dict[str, Any]) -> Rule:
    return bind(get_format(name), [tool_of(schema)], ToolChoice.required(), parallel=False)


def text_of(name: str, schema: dict[str, Any], arguments: dict[str, Any]) -> str:
    form = get_format(name)
    return render(form, Reply.of(ToolCall.of("t", arguments, id=form.ids.sample("t", 0))), [tool_of(schema)])


@pytest.mark.parametrize("name, case", CASES)
def test_the_rule_admits_what_fits_and_it_reads_back(name: str, case: str) -> None:
    schema, fitting, _ = SCHEMAS[case]
    lark, gbnf = ByteMatcher(emit_lark(rule_of(name, schema))), Acceptor(emit_gbnf(rule_of(name, schema)).text)
    for arguments in fitting:
        text = text_of(name, schema, arguments)
        assert parse(get_format(name), text, [tool_of(schema)]).calls[0].arguments == arguments
        assert lark.accepts(text), text
        assert gbnf.accepts(text), text


@pytest.mark.parametrize("name, case", CASES)
def test_the_rule_refuses_members_of_another_type(name: str, case: str) -> None:
    schema, _, wrong = SCHEMAS[case]
    anything: dict[str, Any] = {"type": "object"}
    lark, gbnf = ByteMatcher(emit_lark(rule_of(name, schema))), Acceptor(emit_gbnf(rule_of(name, schema)).text)
    for arguments in wrong:
        text = text_of(name, anything, arguments)
        assert not lark.accepts(text), text
        assert not gbnf.accepts(text), text


@pytest.mark.parametrize("name", SOME)
def test_a_listed_name_is_not_written_again_among_the_others(name: str) -> None:
    schema, _, _ = SCHEMAS["optional members and others"]
    lark, gbnf = ByteMatcher(emit_lark(rule_of(name, schema))), Acceptor(emit_gbnf(rule_of(name, schema)).text)
    text = text_of(name, {"type": "object"}, {"x": 1, "note": 2})
    assert not lark.accepts(text), text
    assert not gbnf.accepts(text), text


@pytest.mark.parametrize("name, case", CASES)
def test_skipping_gives_what_the_model_would_have_written(name: str, case: str) -> None:
    schema, fitting, _ = SCHEMAS[case]
    skipper = SkipGenerator(SkipPlan(rule_of(name, schema)), emit, NO_TOKENIZER, SkipGuard())
    for arguments in fitting:
        text = text_of(name, schema, arguments)
        assert generated_text(skipper, ScriptedModel(text, 3, checks=True)) == text


@pytest.mark.parametrize("name", SOME)
def test_a_walk_with_additional_members_makes_only_valid_calls(name: str) -> None:
    rng, form = random.Random(name), get_format(name)
    vocabulary, llg_tokenizer = tokenizer("bytes")
    finished = 0
    for schema, _, _ in SCHEMAS.values():
        tool = tool_of(schema)
        validator: Any = jsonschema.Draft202012Validator(tool.parameters)
        grammar = emit_lark(rule_of(name, schema), vocabulary.specials)
        matcher = llguidance.LLMatcher(llg_tokenizer, llguidance.LLMatcher.grammar_from_lark(grammar), log_level=0)
        for _ in range(4):
            result = walk(vocabulary, matcher, rng)
            assert not result.problem, result
            if not result.is_finished:
                continue
            finished += 1
            reply = parse(form, result.text, [tool])
            # No target can ensure that names which the schema does not list differ from each other.
            if any("twice" in note.message or "duplicate" in note.message for note in reply.diagnostics):
                continue
            assert reply.calls, f"{reply.diagnostics} in {result.text!r}"
            if "patternProperties" not in schema:
                faults = [error.message for error in validator.iter_errors(reply.calls[0].arguments)]
                assert not faults, f"{faults} in {result.text!r}"
    assert finished, "no walk came to an end"
