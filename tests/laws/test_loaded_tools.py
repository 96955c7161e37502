"""Law: no call of a tool that is not loaded. Random walks under the mask, with tools that are found in between."""

from __future__ import annotations

import random

import llguidance
import pytest

from ferrule import ToolChoice
from ferrule.core.call import TOOL_SEARCH, FunctionCall, ToolCall
from ferrule.core.message import ChatMessage
from ferrule.formats import all_formats, parse
from ferrule.rules.lark import emit_lark
from ferrule.run.deferral import Deferral, DeferralSettings, search_messages
from ferrule.wire.rule_builder import bind
from rules.vocabularies import tokenizer
from rules.walks import walk
from run.tool_sets import many_tools

TOOLS = many_tools(120)
FORMATS = ("hermes", "qwen_xml", "llama3", "glm45", "deepseek_v31", "harmony", "granite3")
SEARCHES = 4
WALKS = 6


def walk_with_searches(name: str, seed: str, searches: int = SEARCHES, walks: int = WALKS) -> int:
    """Walk under the rule of each prompt of a conversation that searches, and return how many calls were made."""
    rng = random.Random(seed)
    form = all_formats()[name]
    tokens, llg_tokenizer = tokenizer("bytes")
    deferral = Deferral.of(TOOLS, DeferralSettings(above_tokens=500, preselected=2))
    assert deferral is not None
    deferral = deferral.with_preselected([rng.choice(TOOLS).name])
    every_tool = (*TOOLS, deferral.search)
    messages = [ChatMessage.user("hi")]
    calls = 0
    for number in range(searches + 1):
        plan = deferral.plan(messages)
        grammar = emit_lark(bind(form, plan.tools, ToolChoice.required()), tokens.specials)
        matcher = llguidance.LLMatcher(llg_tokenizer, llguidance.LLMatcher.grammar_from_lark(grammar), log_level=0)
        for _ in range(walks):
            result = walk(tokens, matcher, rng)
            assert not result.problem, result
            reply = parse(form, result.text, every_tool)
            # Also of a walk that ended inside a call: its name is written.
            made = {call.name for call in (*reply.calls, *reply.incomplete)}
            assert made <= set(plan.names), result.text
            calls += len(made)
        search = ToolCall(f"call_{number}", FunctionCall(deferral.search.name, {"query": "x"}), TOOL_SEARCH)
        found = [tool.name for tool in rng.sample(TOOLS, 5)]
        messages += search_messages(deferral.answer(search, found, plan))
    return calls


@pytest.mark.parametrize("name", FORMATS)
def test_a_walk_calls_only_what_is_loaded(name: str) -> None:
    assert walk_with_searches(name, name), "no walk wrote a call"
