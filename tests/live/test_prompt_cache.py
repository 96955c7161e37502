"""A client that only appends makes the engine read each prompt once: a run of Claude Code on a real model."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from ferrule.core.call import TOOL_SEARCH, FunctionCall, ToolCall
from ferrule.core.event import Usage
from ferrule.core.message import ChatMessage
from ferrule.core.request import ToolCallRequest
from ferrule.engines.llama import LlamaGenerator
from ferrule.engines.text.engine import TextEngine
from ferrule.run.deferral import Deferral, DeferralSettings, search_messages
from ferrule.run.deferring_engine import DeferringEngine
from ferrule.sources.search.tool_finder import ToolFinder
from lab.prompt_cache import run_client
from lab.servers import MODEL
from run.tool_sets import many_tools

pytestmark = pytest.mark.live
TOKENS, TURNS = 300, 4
TOOLS = tuple(many_tools(200))


def test_a_run_that_only_appends_reads_far_less_than_one_that_writes_the_time() -> None:
    appended, changed = run_client(TOKENS, TURNS, "none"), run_client(TOKENS, TURNS, "time")
    assert {turn.changed_by for turn in appended} == {""}
    # What follows the first turn is new: a call, its result, and what opens a reply.
    assert all(turn.cached_tokens > 0.8 * before.prompt_tokens for before, turn in pairwise(appended))
    assert [turn.changed_by for turn in changed] == ["", *["client"] * (TURNS - 1)]
    assert all(turn.changed == "the system message changed at byte 0" for turn in changed[1:])
    reads = [sum(turn.read_tokens for turn in turns[1:]) for turns in (appended, changed)]
    assert reads[0] < 0.2 * reads[1]


def test_tools_that_are_found_turn_by_turn_are_read_once() -> None:
    """By llama.cpp's own counts: a search appends what it found, and nothing before it is read again."""
    settings = DeferralSettings(above_tokens=600)
    deferral = Deferral.of(TOOLS, settings)
    assert deferral is not None
    messages = [ChatMessage.system("Be brief."), ChatMessage.user("Read the mail.")]
    usages: list[Usage] = []

    async def talk() -> None:
        async with DeferringEngine(TextEngine(LlamaGenerator(MODEL, 1, 1, 8_192)), settings, ToolFinder()) as engine:
            for turn in range(TURNS + 2):
                call = ToolCall(f"call_s{turn}", FunctionCall(deferral.search.name, {"query": "x"}), TOOL_SEARCH)
                found = [tool.name for tool in TOOLS[turn * 5 + 10 : turn * 5 + 12]]
                messages.extend(search_messages(deferral.answer(call, found, deferral.plan(messages))))
                reply = await engine.generate_with_tools(
                    ToolCallRequest(messages=tuple(messages), tools=TOOLS, max_tokens=1)
                )
                assert reply.usage is not None
                usages.append(reply.usage)
                messages.extend([ChatMessage.assistant(f"It is {turn}."), ChatMessage.user(f"And {turn + 1}?")])

    asyncio.run(talk())
    for before, usage in pairwise(usages):
        # The end of a prompt opens the reply, which the script then writes in other words than the model.
        assert usage.cached_tokens > before.prompt_tokens - 10, (before, usage)
    read = sum(usage.prompt_tokens - usage.cached_tokens for usage in usages)
    assert read < usages[-1].prompt_tokens + 10 * len(usages)
