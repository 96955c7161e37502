"""A grammar consists of one fragment per tool, and a cached fragment is not emitted again."""

from __future__ import annotations

import time

import pytest

from ferrule import ToolChoice, ToolDefinition
from ferrule.core.call import ToolCall
from ferrule.core.reply import Reply
from ferrule.rules import lark
from ferrule.rules.cache import RuleCache, rule_key
from ferrule.rules.lark import emit_lark
from ferrule.rules.matcher import ByteMatcher
from ferrule.rules.rule import Rule, inline_shared
from ferrule.wire.registry import get_format
from ferrule.wire.renderer import render
from ferrule.wire.rule_builder import bind
from lab.rule_tools import sample_tools

NAMES = ("hermes", "qwen_xml", "mistral_v13", "pythonic", "llama3", "generic_xml")


def tools(count: int, changed: int | None = None) -> tuple[ToolDefinition, ...]:
    builders = (ToolDefinition.build(f"tool_{n}").parameter(f"size_{n}", {"type": "integer"}) for n in range(count))
    return tuple(
        (each.parameter("more", {"type": "string"}) if n == changed else each).done() for n, each in enumerate(builders)
    )


@pytest.mark.parametrize("name", NAMES)
def test_one_changed_tool_costs_one_tool(name: str) -> None:
    fragments = lark._FRAGMENTS  # pyright: ignore[reportPrivateUsage]
    emit_lark(bind(get_format(name), tools(20)))
    before = fragments.misses
    emit_lark(bind(get_format(name), tools(20, changed=7)))
    assert fragments.misses == before + 1


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("choice", [ToolChoice.auto(), ToolChoice.required()], ids=lambda choice: choice.mode.value)
def test_a_grammar_of_parts_admits_what_the_whole_admits(name: str, choice: ToolChoice) -> None:
    format, offered = get_format(name), tools(3, changed=1)
    rule = bind(format, offered, choice)
    calls = [ToolCall.of("tool_1", {"size_1": 4, "more": "x"}), ToolCall.of("tool_2", {"size_2": 1})]
    text = render(format, Reply.of(*calls), offered)
    for grammar in (emit_lark(rule), emit_lark(Rule(inline_shared(rule.start), tokens=rule.tokens))):
        assert ByteMatcher(grammar).accepts(text)
        assert not ByteMatcher(grammar).accepts(text.replace("tool_1", "tool_9"))


@pytest.mark.parametrize("name", ["hermes", "qwen_xml"])
@pytest.mark.parametrize("count", [1, 10, 100])
def test_a_tool_set_takes_about_ten_kilobytes_and_one_more_for_each_tool(name: str, count: int) -> None:
    grammar = emit_lark(bind(get_format(name), sample_tools(count)))
    assert len(grammar.encode()) < 10_000 + 1_200 * count


def test_a_rule_in_the_cache_costs_a_fraction_of_making_it() -> None:
    format, offered = get_format("hermes"), sample_tools(10)
    cache = RuleCache()
    key = rule_key("hermes", offered, ToolChoice.auto(), "lark")
    started = time.process_time()
    cache.get(key, lambda: emit_lark(bind(format, offered)))
    compiled = time.process_time()
    for _ in range(100):
        cache.get(key, str)
    assert (time.process_time() - compiled) / 100 < (compiled - started) / 50


def test_a_special_token_that_only_free_text_excludes_changes_nothing() -> None:
    rule = bind(get_format("hermes"), tools(3))
    plain = emit_lark(rule)
    assert "<\\|im_end\\|>" in plain
    assert emit_lark(rule, {"<|im_end|>": 7}) == plain


@pytest.mark.parametrize("special", ["</tool_call>", "arguments", "tool_1", "size_2"])
def test_a_special_token_inside_a_call_is_named_wherever_it_is_written(special: str) -> None:
    rule = bind(get_format("qwen_xml"), tools(3, changed=1))
    text = emit_lark(rule, {special: 77, "<|im_end|>": 78})
    whole = emit_lark(Rule(inline_shared(rule.start), tokens=rule.tokens), {special: 77, "<|im_end|>": 78})
    assert ("<[77]>" in text) == ("<[77]>" in whole) == (special != "arguments")
