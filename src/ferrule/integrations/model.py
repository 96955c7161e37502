"""Helpers for the framework models: load an engine, stream its events, and reject incomplete replies.

It depends on no framework. A framework runs every call in a reply. So a reply with an incomplete call is rejected as a
whole: running only its other calls might not be what the model intended.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace

from ferrule.core.event import CallStart, Event, FinishReason
from ferrule.core.ids import make_unique
from ferrule.core.reply import Reply, ReplyFold
from ferrule.core.request import ToolCallRequest
from ferrule.engines.engine import Engine
from ferrule.engines.registry import load_engine

TOKEN_LIMIT_HINT = "Raise the token limit, or ask for less."


def engine_of(engine: Engine | str) -> Engine:
    """Return the engine, or load it from a string for `ferrule.load_engine`."""
    return load_engine(engine) if isinstance(engine, str) else engine


async def reply_events(engine: Engine, request: ToolCallRequest) -> AsyncGenerator[Event]:
    """Stream the reply. Call ids are made unique, because frameworks treat two calls with one id as one call."""
    ids = [call.id for message in request.messages for call in message.tool_calls]
    async with aclosing(engine.stream(request)) as events:
        async for event in events:
            if not isinstance(event, CallStart):
                yield event
                continue
            ids.append(make_unique((*ids, event.id))[-1])
            yield replace(event, id=ids[-1])


async def reply_of(engine: Engine, request: ToolCallRequest) -> Reply:
    """Generate the whole reply."""
    fold = ReplyFold()
    async with aclosing(reply_events(engine, request)) as events:
        async for event in events:
            fold.add(event)
    return fold.reply()


def rejection_reason(reply: Reply) -> str:
    """Why a reply must be rejected; empty if it is complete."""
    details = "; ".join(diagnostic.message for diagnostic in reply.diagnostics)
    if reply.incomplete:
        names = ", ".join(dict.fromkeys(call.name for call in reply.incomplete))
        if is_truncated(reply):
            return f"the answer was cut off in a call of {names}. {TOKEN_LIMIT_HINT}"
        return f"the call of {names} is rejected: {details or 'it does not match its schema'}"
    if reply.finish is None:
        return f"the answer ended early: {details or 'the engine gave no reason'}"
    return ""


def is_truncated(reply: Reply) -> bool:
    """Whether the token limit ended the reply."""
    return reply.finish is FinishReason.LENGTH
