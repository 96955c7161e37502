"""ToolExecutor: the specification's executor: dispatches single calls, and runs a whole chat with tools."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ferrule.core.context import CallContext
from ferrule.core.request import ToolCallRequest
from ferrule.engines.engine import Engine
from ferrule.run.dispatcher import Dispatcher
from ferrule.run.events import LoopEvent
from ferrule.run.loop import Decide, Loop, nobody


@dataclass(slots=True)
class ToolExecutor(Dispatcher):
    """A dispatcher that can also drive the loop."""

    async def run_chat_with_tools(
        self,
        engine: Engine,
        request: ToolCallRequest,
        stream_to: Callable[[LoopEvent], None] | None = None,
        decide: Decide = nobody,
        context: CallContext | None = None,
    ) -> Loop:
        """The whole loop: ask, run, ask again, until the model answers or a limit is reached. `stream_to` hears all."""
        await self.refresh()
        loop = Loop(engine, self, request, context or CallContext(), decide)
        async for event in loop.stream():
            if stream_to is not None:
                stream_to(event)
        return loop
