"""What every framework's model is made of: an engine, its events, and whether its reply may be handed on.

Knows no framework. A framework runs whatever calls are in a reply. So one with a call that is not complete is not
handed on at all: what came of the others could not be told apart from what the model meant to do.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace

from ferrule.core.event import CallStart, Event, FinishReason
from ferrule.core.ids import apart
from ferrule.core.reply import Folding, Reply
from ferrule.core.request import ToolCallRequest
from ferrule.engines.engine import Engine
from ferrule.engines.registry import load_engine

CUT_OFF_HINT = "Raise the limit of tokens, or ask for less."


def engine_of(engine: Engine | str) -> Engine:
    """The engine itself, or the one that the string names, as `ferrule.load_engine` reads it."""
    return load_engine(engine) if isinstance(engine, str) else engine


async def reply_events(engine: Engine, request: ToolCallRequest) -> AsyncGenerator[Event]:
    """The answer as it forms. No call has the id of an earlier one: frameworks take two such calls for one."""
    taken = [call.id for message in request.messages for call in message.tool_calls]
    async with aclosing(engine.stream(request)) as events:
        async for event in events:
            if not isinstance(event, CallStart):
                yield event
                continue
            taken.append(apart((*taken, event.id))[-1])
            yield replace(event, id=taken[-1])


async def reply_of(engine: Engine, request: ToolCallRequest) -> Reply:
    """The whole answer."""
    folding = Folding()
    async with aclosing(reply_events(engine, request)) as events:
        async for event in events:
            folding.add(event)
    return folding.reply()


def why_unfit(reply: Reply) -> str:
    """Why a reply must not be handed on, in words for a person; empty where it may be."""
    told = "; ".join(diagnostic.message for diagnostic in reply.diagnostics)
    if reply.incomplete:
        names = ", ".join(dict.fromkeys(call.name for call in reply.incomplete))
        if is_cut_off(reply):
            return f"the answer was cut off in a call of {names}. {CUT_OFF_HINT}"
        return f"the call of {names} is not handed on: {told or 'it does not fit its schema'}"
    if reply.finish is None:
        return f"the answer broke off: {told or 'the engine did not say why'}"
    return ""


def is_cut_off(reply: Reply) -> bool:
    """Whether the limit of tokens ended it."""
    return reply.finish is FinishReason.LENGTH
