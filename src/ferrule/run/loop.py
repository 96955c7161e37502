"""Loop: drives the machine. Asks the engine, runs calls side by side, asks people for leave, and hands everything on.

It decides nothing: what comes next is the machine's word, and what a call comes to is the executor's.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from ferrule.core.call import ToolCall
from ferrule.core.choice import ToolChoice
from ferrule.core.context import CallContext, Progress
from ferrule.core.message import ChatMessage, Role
from ferrule.core.reply import Folding, Reply
from ferrule.core.request import ToolCallRequest
from ferrule.engines.engine import Engine
from ferrule.run.dispatch import Dispatcher
from ferrule.run.happened import (
    ConfirmationRequired,
    LoopEnded,
    LoopEvent,
    ToolFinished,
    ToolProgressed,
    ToolStarted,
)
from ferrule.run.machine import Ask, End, Give, Machine, Run, Seek, Step


@dataclass(frozen=True, slots=True)
class Decision:
    """A person's word on a call. `arguments` replace the model's, and are checked again."""

    is_allowed: bool
    why: str = ""
    arguments: str | None = None


Decide = Callable[[ToolCall], Awaitable[Decision]]


async def nobody(call: ToolCall) -> Decision:
    """Where nobody is asked, nothing that changes the world happens."""
    return Decision(False, "nobody was there to allow it")


@dataclass(slots=True)
class Loop:
    """One run of the loop over one conversation; `added` are the messages that it brings."""

    engine: Engine
    executor: Dispatcher
    request: ToolCallRequest
    context: CallContext = field(default_factory=CallContext)
    decide: Decide = nobody
    machine: Machine = field(default_factory=Machine)
    added: list[ChatMessage] = field(default_factory=list[ChatMessage])
    reply: Reply = field(default_factory=Reply)
    _told: asyncio.Queue[LoopEvent] = field(default_factory=asyncio.Queue[LoopEvent])
    _tasks: set[asyncio.Task[list[Step]]] = field(default_factory=set[asyncio.Task[list[Step]]])
    _words: str = ""

    async def stream(self) -> AsyncGenerator[LoopEvent]:
        """Everything as it happens; closing it cancels what is under way."""
        self.machine.policy = self.executor.policy
        driving = asyncio.ensure_future(self._drive())
        try:
            while True:
                waiting = asyncio.ensure_future(self._told.get())
                await asyncio.wait({waiting, driving}, return_when=asyncio.FIRST_COMPLETED)
                if waiting.done():
                    yield waiting.result()
                    continue
                waiting.cancel()
                while not self._told.empty():
                    yield self._told.get_nowait()
                driving.result()
                return
        finally:
            for task in (driving, *self._tasks):
                task.cancel()
            await asyncio.gather(driving, *self._tasks, return_exceptions=True)

    async def _drive(self) -> None:
        started = time.monotonic()
        steps = self.machine.begin()
        while True:
            ended = await self._take(steps)
            if ended is not None:
                self._told.put_nowait(LoopEnded(ended.state, self._words))
                return
            done, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
            self.machine.elapsed(time.monotonic() - started)
            self._tasks -= done
            steps = [step for task in done for step in task.result()]

    async def _take(self, steps: list[Step]) -> End | None:
        for step in steps:
            match step:
                case Ask():
                    self._begin(self._ask(step))
                case Run(call):
                    self._begin(self._run(call))
                case Seek(call):
                    self._told.put_nowait(ConfirmationRequired(call))
                    self._begin(self._seek(call))
                case Give(results):
                    told = [self.executor.result_of(call, outcome, hint) for call, outcome, hint in results]
                    self.added.append(ChatMessage(Role.TOOL, tuple(told)))
                case End():
                    return step
        return None

    def _begin(self, work: Awaitable[list[Step]]) -> None:
        self._tasks.add(asyncio.ensure_future(work))

    async def _ask(self, step: Ask) -> list[Step]:
        if step.words:
            self._words = step.words
            self.added.append(ChatMessage.user(f"{step.words} Answer now with what you have."))
        asked = replace(
            self.request,
            messages=(*self.request.messages, *self.added),
            tools=self.executor.definitions,
            tool_choice=ToolChoice.none() if step.is_last else self.request.tool_choice,
        )
        folding = Folding()
        async with aclosing(self.engine.stream(asked)) as events:
            async for event in events:
                folding.add(event)
                self._told.put_nowait(event)
        self.reply = folding.reply()
        self.added.append(self.reply.as_message())
        needs_leave = {call.id for call in self.reply.calls if self.executor.requires_confirmation(call)}
        return self.machine.replied(self.reply, frozenset(needs_leave))

    async def _run(self, call: ToolCall) -> list[Step]:
        self._told.put_nowait(ToolStarted(call))

        loop = asyncio.get_running_loop()

        def tell(progress: Progress) -> None:
            # A tool may be running in a thread.
            loop.call_soon_threadsafe(self._told.put_nowait, ToolProgressed(call.id, progress))

        context = replace(self.context, call_id=call.id, tell=tell)
        outcome = await self.executor.run(call, context)
        self._told.put_nowait(ToolFinished(self.executor.result_of(call, outcome)))
        return self.machine.resulted(call.id, outcome)

    async def _seek(self, call: ToolCall) -> list[Step]:
        decision = await self.decide(call)
        if not decision.is_allowed:
            return self.machine.denied(call.id, decision.why)
        return self.machine.approved(call.id, decision.arguments)
