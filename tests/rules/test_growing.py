"""A rule that grew tool by tool is the rule that was built at once, and one more tool costs one tool."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule import ToolChoice, ToolDefinition
from ferrule.core.text_grammar import TextGrammar
from ferrule.engines.generator import ModelFacts
from ferrule.engines.grammar import grammar_of
from ferrule.errors import FormatError
from ferrule.formats import all_formats
from ferrule.rules import lark, structural_tag
from ferrule.rules.cache import rule_key
from ferrule.rules.gbnf import emit_gbnf
from ferrule.rules.lark import emit_lark
from ferrule.rules.rule import GrammarText, Members, RuleNode, Str, fingerprint_of
from ferrule.rules.structural_tag import emit_structural_tag
from ferrule.schema.admission_cache import admit_tool, admit_tools
from ferrule.schema.notation import JSON, OBJECT, Escapes, Quote
from ferrule.wire import rule_builder
from ferrule.wire.registry import get_format
from ferrule.wire.rule_builder import bind
from lab.rule_compiles import clear_tool_caches
from lab.rule_tools import sample_tools
from laws.replies import TOOLS
from sampling import sampled

CHOICES = {
    "auto": ToolChoice.auto(),
    "required": ToolChoice.required(),
    "allowed": ToolChoice.allowed(["get_weather", "ping"]),
}
SPECIALS = {"<tool_call>": 300, "</tool_call>": 301, "[TOOL_CALLS]": 302, "<|im_end|>": 303, "arguments": 304}
OFFERED = (
    *TOOLS,
    *sample_tools(4),
    ToolDefinition.custom("set_level", "Sets it.", TextGrammar("regex", "low|high")),
)


def again(tools: Sequence[ToolDefinition]) -> tuple[ToolDefinition, ...]:
    """The same tools as another request brings them: equal, and no object the same."""
    return admit_tools(
        [
            ToolDefinition(
                tool.name,
                tool.description,
                copy.deepcopy(tool.parameters),
                is_custom=tool.is_custom,
                input_grammar=tool.input_grammar,
            )
            for tool in tools
        ]
    )


def texts(name: str, choice: str, tools: Sequence[ToolDefinition], any_order: bool) -> list[str]:
    try:
        rule = bind(get_format(name), tools, CHOICES[choice], any_order=any_order)
    except FormatError as refusal:
        return [str(refusal)]
    gbnf = emit_gbnf(rule)
    tag = json.dumps(emit_structural_tag(rule))
    return [emit_lark(rule), emit_lark(rule, SPECIALS, (9,)), f"{gbnf}", tag, rule.fingerprint]


@pytest.mark.parametrize("name, choice", sampled("growing", all_formats(), CHOICES))
def test_a_rule_that_grew_is_the_rule_that_was_built_at_once(name: str, choice: str) -> None:
    clear_tool_caches()
    for any_order in (False, True):
        grown: list[str] = []
        for count in range(len(TOOLS), len(OFFERED) + 1):
            grown = texts(name, choice, again(OFFERED[:count]), any_order)
        clear_tool_caches()
        assert texts(name, choice, again(OFFERED), any_order) == grown
        # Tools that were not admitted are never cached: somebody may still change them.
        clear_tool_caches()
        assert texts(name, choice, copy.deepcopy(OFFERED), any_order) == grown


@cache
def tools_of_rules() -> tuple[ToolDefinition, ...]:
    return admit_tools(OFFERED)


@given(st.lists(st.lists(st.integers(0, len(OFFERED) - 1), min_size=1, max_size=4, unique=True), max_size=5))
def test_sets_in_any_sequence_leave_nothing_of_each_other_in_a_rule(sets: list[list[int]]) -> None:
    for indexes in sets:
        tools = [tools_of_rules()[index] for index in indexes]
        for name in ("hermes", "qwen_xml", "pythonic"):
            kept = emit_lark(bind(get_format(name), tools))
            assert kept == emit_lark(bind(get_format(name), copy.deepcopy([OFFERED[index] for index in indexes])))


@pytest.mark.parametrize("name", ["hermes", "qwen_xml", "pythonic", "mistral_v13"])
def test_one_added_tool_is_the_only_one_that_is_bound_and_emitted(name: str) -> None:
    format = get_format(name)
    made = (
        rule_builder._CALL_RULES,  # pyright: ignore[reportPrivateUsage]
        lark._FRAGMENTS,  # pyright: ignore[reportPrivateUsage]
        structural_tag._GRAMMARS,  # pyright: ignore[reportPrivateUsage]
    )
    clear_tool_caches()
    first = bind(format, again(sample_tools(20)))
    emit_lark(first)
    emit_structural_tag(first)
    before = [one.misses for one in made]
    more = bind(format, again(sample_tools(21)))
    emit_lark(more)
    emit_structural_tag(more)
    bound, emitted, written = (one.misses - earlier for one, earlier in zip(made, before, strict=True))
    assert (bound, emitted) == (1, 1)
    assert written <= 20, "one tool has at most so many values"


def test_a_tool_that_was_not_admitted_may_still_be_changed() -> None:
    parameters: dict[str, Any] = {"type": "object", "properties": {"city": {"type": "string"}}}
    tool = ToolDefinition("get_weather", "", parameters)
    before = emit_lark(bind(get_format("hermes"), [tool]))
    parameters["properties"]["days"] = {"type": "integer"}
    after = emit_lark(bind(get_format("hermes"), [tool]))
    assert "days" in after
    assert "days" not in before


def test_equal_tools_of_two_requests_are_one_object_and_others_are_not() -> None:
    first, second = again(TOOLS), again(TOOLS)
    assert all(one is other for one, other in zip(first, second, strict=True))
    described = ToolDefinition(TOOLS[0].name, "Something else.", copy.deepcopy(TOOLS[0].parameters))
    effects = ToolDefinition(TOOLS[0].name, TOOLS[0].description, TOOLS[0].parameters, side_effects=True)
    bound = ToolDefinition(TOOLS[0].name, TOOLS[0].description, TOOLS[0].parameters, "weather.read", "1.0")
    for other in (described, effects, bound):
        admitted = admit_tool(other)
        assert admitted == other
        assert admitted != first[0]
        assert admitted.fingerprint == other.fingerprint


def test_the_order_of_the_parameters_is_part_of_a_rules_key() -> None:
    def key(*names: str) -> object:
        properties = {name: {"type": "string"} for name in names}
        tool = ToolDefinition("find", "", {"type": "object", "properties": properties})
        return rule_key("hermes", (admit_tool(tool),), ToolChoice.auto(), "lark")

    assert key("a", "b") == key("a", "b")
    assert key("a", "b") != key("b", "a")


DOUBLE = Quote('"', '"', Escapes.JSON)


@pytest.mark.parametrize(
    "nodes",
    [
        [Str(quote) for quote in (DOUBLE, replace(DOUBLE, close="'"), replace(DOUBLE, escapes=Escapes.NONE))],
        [Str(DOUBLE), Str(replace(DOUBLE, ends_before=",}"))],
        [
            GrammarText(TextGrammar("regex", "low|high"), quote)
            for quote in (None, DOUBLE, replace(DOUBLE, close="'"), replace(DOUBLE, escapes=Escapes.NONE))
        ],
        [
            Members({}, JSON, "{", container)
            for container in (OBJECT, replace(OBJECT, close=")"), replace(OBJECT, assign="="))
        ],
    ],
    ids=["quotes", "ends", "grammars", "containers"],
)
def test_nodes_that_are_written_differently_have_different_fingerprints(nodes: Sequence[RuleNode]) -> None:
    assert len(set(map(fingerprint_of, nodes))) == len(nodes)


@pytest.mark.parametrize("name", ["hermes", "qwen_xml", "llama3", "generic_xml"])
def test_an_engines_grammar_is_the_one_that_is_emitted_alone(name: str) -> None:
    rule = bind(get_format(name), again(OFFERED))
    facts = ModelFacts(special_tokens=SPECIALS, end_tokens=(9,))
    clear_tool_caches()
    engines = grammar_of(rule, "lark", facts).text
    clear_tool_caches()
    assert engines == emit_lark(rule, SPECIALS, (9,))


def test_a_set_that_no_grammar_can_hold_is_refused_before_all_of_it_is_written() -> None:
    rule = bind(get_format("hermes"), sample_tools(20_000))
    clear_tool_caches()

    def refused() -> FormatError:
        with pytest.raises(FormatError) as refusal:
            grammar_of(rule, "lark", ModelFacts(special_tokens=SPECIALS))
        return refusal.value

    before = lark._FRAGMENTS.misses
    error = refused()
    assert error.code == "grammar_too_large"
    assert error.status == 400
    assert "search" in error.hint
    # The part that fits is written: each of the tools would be a fragment.
    assert 0 < lark._FRAGMENTS.misses - before < 15_000


def test_a_set_that_the_matcher_refuses_gives_the_same_error() -> None:
    rule = bind(get_format("hermes"), sample_tools(2_500))
    with pytest.raises(FormatError, match="grammar") as refusal:
        grammar_of(rule, "lark", ModelFacts())
    assert refusal.value.code == "grammar_too_large"


def test_what_many_tools_have_in_common_counts_once_towards_the_limit() -> None:
    tools = [ToolDefinition(f"tool_{n}", "", {"properties": {"text": {"type": "string"}}}) for n in range(8_000)]
    assert len(emit_lark(bind(get_format("qwen_xml"), tools, ToolChoice.required()))) < lark.MAX_LENGTH
