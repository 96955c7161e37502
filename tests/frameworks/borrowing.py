"""Functions that become a framework's tools, and helpers that run its tools in Ferrule's executor and conversation."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from ferrule import ChoicePolicy, ToolCall, ToolCallRequest, ToolConversation, ToolExecutor, ToolResult
from ferrule.sources.source import Source
from frameworks.given import CALLS, smol

_A_CALL_FIRST = ToolCallRequest(messages=(), tool_choice_policy=ChoicePolicy.REQUIRED_FIRST_HOP, max_tokens=48)


def harbour(name: str) -> str:
    """Tells whether a harbour is open."""
    CALLS.append((name, ""))
    return "open"


async def mayor(city: str) -> str:
    """Who rules a city."""
    return f"the mayor of {city}"


def results_from_conversation(tools: Source, question: str) -> list[ToolResult]:
    """The results of the tools in a conversation with a real model."""
    talk = ToolConversation(smol(), tools, request=_A_CALL_FIRST)
    talk.send_message_sync(question)
    return [result for message in talk.messages for result in message.results]


def dispatch_calls(
    tools: Source, *question: tuple[str, Mapping[str, Any]], is_approved: bool = False
) -> list[ToolResult]:
    """Run each call, given as the name of a tool and its arguments."""

    async def run() -> list[ToolResult]:
        executor = ToolExecutor(tools)
        await executor.refresh()
        dispatch = executor.dispatch_confirmed if is_approved else executor.dispatch
        return [await dispatch(ToolCall.of(name, arguments, "x")) for name, arguments in question]

    return asyncio.run(run())


def side_effects_of(tools: Source) -> dict[str, bool]:
    """Whether each tool has side effects."""
    return {tool.name: tool.side_effects for tool in asyncio.run(ToolExecutor(tools).refresh())}
