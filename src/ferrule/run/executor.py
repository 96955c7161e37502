"""ToolExecutor: the specification's executor. It dispatches single calls and runs a whole chat with tools."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ferrule.core.context import CallContext
from ferrule.core.request import ToolCallRequest
from ferrule.engines.engine import Engine
from ferrule.run.dispatcher import Dispatcher
from ferrule.run.events import LoopEvent
from ferrule.run.loop import Decide, Loop, deny_all


@dataclass(slots=True)
class ToolExecutor(Dispatcher):
    """Runs the tools of a source: single calls, or a whole chat.

    Example:
        executor = ToolExecutor(Functions([add]))
        await executor.refresh()
        result = await executor.dispatch(ToolCall.of("add", {"a": 2, "b": 3}, id="c1"))

        request = ToolCallRequest(messages=(ChatMessage.user("What is 2 and 3?"),))
        loop = await executor.run_chat_with_tools(engine, request)
        print(loop.reply.text)
    """

    async def run_chat_with_tools(
        self,
        engine: Engine,
        request: ToolCallRequest,
        stream_to: Callable[[LoopEvent], None] | None = None,
        decide: Decide = deny_all,
        context: CallContext | None = None,
    ) -> Loop:
        """Ask the model, run its calls and ask again, until it answers or a limit is reached.

        `stream_to` is called with every event.
        """
        await self.refresh()
        loop = Loop(engine, self, request, context or CallContext(), decide)
        async for event in loop.stream():
            if stream_to is not None:
                stream_to(event)
        return loop
