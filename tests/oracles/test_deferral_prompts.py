"""Deferred tools with the checkpoints' own templates: over twenty turns, each prompt begins with the one before it."""

from __future__ import annotations

import asyncio
from datetime import date
from typing import Any

import pytest

from ferrule.core.call import TOOL_SEARCH, FunctionCall, ToolCall
from ferrule.core.message import ChatMessage
from ferrule.engines.generator import ModelFacts
from ferrule.engines.text.prompt import PromptBuilder, prompt_builder_for
from ferrule.run.deferral import Deferral, DeferralPlan, DeferralSettings, search_messages
from lab.paths import CACHE
from run.tool_sets import many_tools

pytestmark = pytest.mark.oracle

TOOLS = many_tools(400)
TURNS = 20
TODAY = date(2026, 11, 19)
# Families whose templates keep what they have written. Others rewrite earlier turns (DeepSeek R1, QwQ drop thoughts,
# Mistral moves the list of tools), with few tools as with many.
FILES = (
    "Qwen-Qwen2.5-7B-Instruct.jinja",
    "Qwen-Qwen3-0.6B.jinja",
    "Qwen3-Coder.jinja",
    "meta-llama-Llama-3.1-8B-Instruct.jinja",
    "meta-llama-Llama-3.3-70B-Instruct.jinja",
    "GLM-4.6.jinja",
    "deepseek-ai-DeepSeek-V3.1.jinja",
    "openai-gpt-oss-120b.jinja",
    "ibm-granite-granite-3.3-2B-Instruct.jinja",
    "ibm-granite-granite-4.0.jinja",
    "Kimi-K2-Instruct.jinja",
    "MiniMax-M1.jinja",
)


async def _no_template(*_: Any) -> None:
    return None


def _prompt(builder: PromptBuilder, plan: DeferralPlan) -> str:
    prompt, _ = asyncio.run(builder.build(plan.messages, plan.listed, _no_template, TODAY))
    return prompt.broken_text


@pytest.mark.parametrize("keeps_searches", [True, False], ids=["searches kept", "searches lost"])
@pytest.mark.parametrize("file", FILES)
def test_each_prompt_begins_with_the_one_before_it(file: str, keeps_searches: bool) -> None:
    facts = ModelFacts(template=(CACHE / "templates" / file).read_bytes().decode("utf-8"))
    builder = asyncio.run(prompt_builder_for(facts, None, TODAY))
    deferral = Deferral.of(TOOLS, DeferralSettings(above_tokens=4_000))
    assert deferral is not None
    deferral = deferral.with_preselected(["get_mail_1"])
    messages = [ChatMessage.system("Be brief."), ChatMessage.user("hi")]
    before, unloaded = "", 0
    for turn in range(TURNS):
        for step in ("search", "call", "answer"):
            plan = deferral.plan(messages)
            prompt = _prompt(builder, plan)
            assert prompt.startswith(before)
            before = prompt
            name = TOOLS[turn * 7 + 10].name
            match step:
                case "search" if keeps_searches:
                    call = ToolCall(f"call_s{turn}", FunctionCall(deferral.search.name, {"query": "x"}), TOOL_SEARCH)
                    found = [tool.name for tool in TOOLS[turn * 7 + 10 : turn * 7 + 20]]
                    messages += search_messages(deferral.answer(call, found, plan))
                case "call":
                    messages.append(ChatMessage.assistant(tool_calls=[ToolCall.of(name, {"id": "1"}, f"call_{turn}")]))
                    messages.append(ChatMessage.tool(f"call_{turn}", "fine", name))
                case "answer":
                    messages += [ChatMessage.assistant(f"It is {turn}."), ChatMessage.user(f"And {turn + 1}?")]
                case _:
                    pass
        unloaded += name not in deferral.plan(messages).loaded
    # What was called last is loaded, whatever had to go.
    assert not unloaded
