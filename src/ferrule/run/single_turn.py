"""The tool loop behind `engine.run`: one turn, from the arguments of a call to the finished turn."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import aclosing
from dataclasses import replace
from typing import Any, cast

from ferrule.core.context import CallContext
from ferrule.core.conversion import MessagesInput
from ferrule.core.request import ToolCallRequest
from ferrule.engines.engine import Engine
from ferrule.engines.request_options import PreparedRequest, RequestOptions
from ferrule.run.conversation import ConversationTurn, ToolConversation
from ferrule.run.decision import DecideInput
from ferrule.run.deferral import DeferralSettings
from ferrule.run.hooks import Hook
from ferrule.run.tool_binding import Tools, bind_tools

_LIMITS = ("max_iterations", "per_tool_timeout_seconds", "max_concurrent")


class RunOptions(RequestOptions, total=False):
    """The options of `engine.run`: those of a request, who approves, hooks, and the limits of the loop."""

    decide: DecideInput
    context: CallContext
    hooks: Iterable[Hook]
    deferral: DeferralSettings | None
    max_iterations: int
    per_tool_timeout_seconds: float
    max_concurrent: int


async def run_turn(
    engine: Engine,
    messages: MessagesInput | ToolCallRequest,
    tools: Tools,
    response_type: Any,
    options: RunOptions,
) -> ConversationTurn:
    """Run the loop on an engine and return the finished turn. `Engine.run` describes the arguments."""
    fields = cast("dict[str, Any]", {**options})
    limits = {name: fields.pop(name) for name in _LIMITS if name in fields}
    conversation_options = {
        name: fields.pop(name) for name in ("decide", "context", "hooks", "deferral") if name in fields
    }
    prepared = PreparedRequest.of(messages, None, response_type, cast("RequestOptions", fields))
    executor, definitions = bind_tools(prepared.request.tools if tools == () else tools, **limits)
    conversation = ToolConversation(engine, executor or definitions, request=prepared.request, **conversation_options)
    async with aclosing(conversation.answer(prepared.request.messages)) as events:
        async for _ in events:
            pass
    return replace(conversation.last, reply=prepared.with_value(conversation.last.reply))
