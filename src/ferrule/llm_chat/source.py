"""ChatSource: an engine as the capability `llm.chat@2.0`. A worker serves it like any other source.

So a model on the bus has what a tool has: the caller's rights, a deadline, discovery, a limit of calls at the same
time. Its answer comes in pieces, the frames of `llm_chat.frames`; a caller that does not read pieces gets the message.
A caller that stops reading, or is gone, stops the engine.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import asdict
from typing import Any

from ferrule.core.context import CallContext
from ferrule.core.json_schema import JsonSchema
from ferrule.core.outcome import Answered, Outcome
from ferrule.core.reply import Reply, ReplyFold
from ferrule.core.tool import ToolDefinition
from ferrule.dialects.caller_error import caller_error, hides_details
from ferrule.dialects.openai_chat.request_encoder import messages_body
from ferrule.engines.engine import Engine
from ferrule.errors import FerruleError
from ferrule.llm_chat.body import decode_body
from ferrule.llm_chat.frames import FrameEncoder
from ferrule.sources.bus.subject import MODEL
from ferrule.sources.source import Source

_log = logging.getLogger(__name__)

_DEFINITION = (
    ToolDefinition.build("chat")
    .description("Asks the model of this worker. The body is that of OpenAI's chat API.")
    .parameter("messages", {"type": "array", "items": {"type": "object"}}, "the conversation", required=True)
    .parameter("tools", {"type": "array", "items": {"type": "object"}}, "the tools that the model may call")
    .parameter("tool_choice", {}, "auto, none, required, or one tool")
    .parameter("max_tokens", JsonSchema.integer(minimum=1), "how many tokens the answer may have")
    .bound_to(MODEL.name, MODEL.version)
    .done()
)


class ChatSource(Source):
    """Serves one engine, and closes it.

    Example:
        async with Worker(ChatSource(load_engine("llama:model.gguf")), "nats://127.0.0.1:4222"):
            await stop.wait()
    """

    kind = "model"

    def __init__(self, engine: Engine) -> None:
        self.id = "llm"
        self._engine = engine

    async def tools(self) -> tuple[ToolDefinition, ...]:
        return (_DEFINITION,)

    async def call(self, name: str, arguments: Mapping[str, Any], context: CallContext) -> Outcome:
        encoder, folding = FrameEncoder(), ReplyFold()
        try:
            async with aclosing(self._engine.stream_request(decode_body(arguments))) as events:
                async for event in events:
                    folding.add(event)
                    for frame in encoder.feed(event):
                        await context.emit(frame)
        except FerruleError as error:
            if hides_details(error):
                _log.warning("%s: %s: %s", MODEL, error.code, error.message)
            return Answered(_error_body(error), is_error=True, code=caller_error(error).code)
        reply = folding.reply()
        # A caller that has read the pieces needs to know only that there are no more of them.
        return Answered(_reply_body(reply) if context.on_item is None else {"finish_reason": reply.finish_reason.value})

    async def close(self) -> None:
        await self._engine.close()


def _reply_body(reply: Reply) -> dict[str, Any]:
    (message,) = messages_body([reply.as_message()], reasoning=True)
    known = {} if reply.usage is None else {"usage": asdict(reply.usage)}
    return {"message": message, "finish_reason": reply.finish_reason.value, **known}


def _error_body(error: FerruleError) -> dict[str, Any]:
    shown = caller_error(error)
    return {"code": shown.code, "message": shown.message, "hint": shown.hint, "param": shown.param}
