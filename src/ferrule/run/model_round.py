"""ModelRound: asks the model once in a round of the loop, with the hooks before and after it, and perhaps a second try.

A first try whose text nobody has seen leaves no trace in the conversation. One that was shown stays there, followed by
the hint, because a conversation records what its user has seen.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, replace

from ferrule.core.call import ToolCall
from ferrule.core.event import Event, add_usage
from ferrule.core.ids import make_unique
from ferrule.core.message import ChatMessage
from ferrule.core.reply import Reply, ReplyFold
from ferrule.core.request import ToolCallRequest
from ferrule.engines.engine import Engine
from ferrule.run.hook_runner import HookRunner, retry_request
from ferrule.run.hooks import HookContext
from ferrule.run.text_hold import TextHold


@dataclass(frozen=True, slots=True)
class RoundReply:
    """The reply of a round. `earlier` is the first try and the hint, if the first try was shown."""

    request: ToolCallRequest
    reply: Reply
    """Its usage is that of all tries."""
    earlier: tuple[ChatMessage, ...] = ()
    refusal: str = ""
    """Why none of its calls may run, if a hook says so."""


@dataclass(frozen=True, slots=True)
class ModelRound:
    engine: Engine
    hooks: HookRunner
    emit: Callable[[Event], None]

    async def ask(self, request: ToolCallRequest, context: HookContext) -> RoundReply:
        """Ask the model and return its reply."""
        request = await self.hooks.before_model(request, context)
        context = replace(context, request=request)
        reply, hold = await self._stream(request, context)
        retry = await self.hooks.after_model(reply, context)
        if retry is None or reply.calls:
            hold.release()
            return RoundReply(request, reply, refusal=retry.hint if retry is not None else "")
        hold.drop()
        # A model repeats a text more readily if it reads it once more, so it reads only what its user has read.
        again = retry_request(request, reply.as_messages() if hold.is_text_shown else (), retry)
        context = replace(context, request=again, is_retry=True)
        second, second_hold = await self._stream(again, context)
        # It sees this reply too, but there is no third try.
        await self.hooks.after_model(second, context)
        second_hold.release()
        earlier = again.messages[len(request.messages) :] if hold.is_text_shown else ()
        return RoundReply(request, replace(second, usage=add_usage(reply.usage, second.usage)), earlier)

    async def _stream(self, request: ToolCallRequest, context: HookContext) -> tuple[Reply, TextHold]:
        fold = ReplyFold()
        hold = TextHold(self.emit, lambda text: self.hooks.holds_text(text, context))
        # Without such a hook, every event of every conversation would take one more step for nothing.
        take = hold.add if self.hooks.can_hold else self.emit
        async with aclosing(self.engine.stream_request(request)) as events:
            async for event in events:
                fold.add(event)
                take(event)
        reply = _with_unique_ids(fold.reply())
        hold.is_text_shown = hold.is_text_shown or (bool(reply.text) and not self.hooks.can_hold)
        return reply, hold


def _with_unique_ids(reply: Reply) -> Reply:
    """Give calls that share an id different ones; otherwise their results could not be matched to them."""
    ids = iter(make_unique(part.id for part in reply.parts if isinstance(part, ToolCall)))
    parts = tuple(replace(part, id=next(ids)) if isinstance(part, ToolCall) else part for part in reply.parts)
    return replace(reply, parts=parts)
