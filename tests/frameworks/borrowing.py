"""Functions that become a framework's tools, and what its tools are put through here: our executor and conversation."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from ferrule import ChoicePolicy, ToolCall, ToolCallRequest, ToolConversation, ToolExecutor, ToolResult
from ferrule.sources.source import Source
from frameworks.given import SEEN, smol

_A_CALL_FIRST = ToolCallRequest(messages=(), tool_choice_policy=ChoicePolicy.REQUIRED_FIRST_HOP, max_tokens=48)


def harbour(name: str) -> str:
    """Tells whether a harbour is open."""
    SEEN.append((name, ""))
    return "open"


async def mayor(city: str) -> str:
    """Who rules a city."""
    return f"the mayor of {city}"


def told_in_our_conversation(tools: Source, question: str) -> list[ToolResult]:
    """What they answer when a real model of ours is asked."""
    talk = ToolConversation(smol(), tools, request=_A_CALL_FIRST)
    talk.send(question)
    return [result for message in talk.messages for result in message.results]


def dispatched(tools: Source, *asked: tuple[str, Mapping[str, Any]], has_leave: bool = False) -> list[ToolResult]:
    """What comes of each call: the name of a tool and its arguments."""

    async def ran() -> list[ToolResult]:
        executor = ToolExecutor(tools)
        await executor.refresh()
        dispatch = executor.dispatch_confirmed if has_leave else executor.dispatch
        return [await dispatch(ToolCall.of(name, arguments, "x")) for name, arguments in asked]

    return asyncio.run(ran())


def changes_of(tools: Source) -> dict[str, bool]:
    """Of each tool, whether it changes the world."""
    return {tool.name: tool.side_effects for tool in asyncio.run(ToolExecutor(tools).refresh())}
