"""The specification's `run_chat_with_tools(body)`: a whole chat from one body, with frames as dicts.

The model is the one on the executor's bus, unless an engine is given. The frames are those of `llm_chat.frames`, with
`tool_result` for each tool that ran, `confirmation_required`, and one `done` at the end of the chat.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from inspect import isawaitable
from typing import Any, TypeAlias

from ferrule.core.call import ToolResult
from ferrule.core.context import CallContext
from ferrule.core.event import Finish, Usage, add_usage
from ferrule.core.request import ToolCallRequest
from ferrule.dialects.openai_chat.request_encoder import messages_body
from ferrule.engines.engine import Engine
from ferrule.errors import DefinitionError
from ferrule.llm_chat.body import decode_body
from ferrule.llm_chat.engine import BusEngine
from ferrule.llm_chat.frames import ChatFrame, FrameEncoder
from ferrule.run.decision import DecideInput
from ferrule.run.events import ConfirmationRequired, LoopEnded, LoopEvent, ToolFinished, ToolProgressed, ToolStarted
from ferrule.run.executor import ToolExecutor
from ferrule.run.hooks import Hook
from ferrule.sources.bus.bus import Bus

FrameListener: TypeAlias = Callable[[ChatFrame], Awaitable[None] | None]


async def run_chat(
    executor: ToolExecutor,
    body: Mapping[str, Any],
    *,
    engine: Engine | None = None,
    stream_to: FrameListener | None = None,
    decide: DecideInput,
    context: CallContext | None = None,
    hooks: Iterable[Hook] = (),
) -> dict[str, Any]:
    """Run the chat and return its last message, as in OpenAI's chat API."""
    await executor.refresh()
    request = decode_body(body if body.get("tools") else {**body, "tools": executor.native_definitions})
    call_context = context or CallContext()
    encoder = _LoopFrames()

    async def forward(event: LoopEvent) -> None:
        for frame in encoder.feed(event):
            if stream_to is not None and isawaitable(waiting := stream_to(frame)):
                await waiting

    model = engine or _model_of(executor, call_context)
    chatting = _offering(executor, request)
    loop = await chatting.run_chat_with_tools(model, request, forward, decide, call_context, hooks)
    (message,) = messages_body([loop.reply.as_message()], reasoning=False)
    return message


def _offering(executor: ToolExecutor, request: ToolCallRequest) -> ToolExecutor:
    """Return the executor with the tools that the request names."""
    unknown = [tool.name for tool in request.tools if executor.definition(tool.name) is None]
    if unknown:
        offered = ", ".join(tool.name for tool in executor.definitions) or "nothing"
        raise DefinitionError(f"the body has tools that cannot be run: {', '.join(unknown)}", hint=f"Known: {offered}.")
    # The executor's own definition counts: it says what has side effects.
    names = {tool.name for tool in request.tools}
    return replace(executor, tools=[tool for tool in executor.definitions if tool.name in names])


def _model_of(executor: ToolExecutor, context: CallContext) -> Engine:
    if isinstance(executor.bus, Bus):
        return BusEngine(executor.bus, context=context)
    raise DefinitionError(
        "there is no model to ask", hint="Pass engine=..., or give the executor a Bus on which llm.chat@2.0 is served."
    )


@dataclass(slots=True)
class _LoopFrames:
    """Encodes the events of a chat with all its rounds."""

    finish: Finish | None = None
    usage: Usage | None = None
    _encoder: FrameEncoder = field(default_factory=FrameEncoder)

    def feed(self, event: LoopEvent) -> Iterator[ChatFrame]:
        match event:
            case ToolStarted(call):
                yield {"type": "tool_started", "id": call.id, "name": call.name, "arguments": call.arguments}
            case ToolProgressed(id, progress):
                known = {"done": progress.done, "total": progress.total, "message": progress.message}
                yield {"type": "tool_progress", "id": id, **known}
            case ToolFinished(result):
                yield _result_frame(result)
            case ConfirmationRequired(call, approval):
                shown = {"id": call.id, "name": call.name, "arguments": call.arguments}
                yield {"type": "confirmation_required", **shown, **({"approval": approval} if approval else {})}
            case Finish():
                # One chat has many replies, and one end. The rest of an open call comes out before it.
                self.finish, self.usage = event, add_usage(self.usage, event.usage)
                yield from (frame for frame in self._encoder.feed(event) if frame["type"] != "done")
                self._encoder = FrameEncoder()
            case LoopEnded(_, reason):
                yield from FrameEncoder().feed(replace(self.finish, usage=self.usage)) if self.finish else ()
                if reason:
                    yield {"type": "limit", "message": reason}
            case _:
                yield from self._encoder.feed(event)


def _result_frame(result: ToolResult) -> ChatFrame:
    return {
        "type": "tool_result",
        "tool_call_id": result.tool_call_id,
        "name": result.name,
        "body": result.content,
        "is_error": result.is_error,
        **({"media": [one.as_dict() for one in result.media]} if result.media else {}),
    }
