"""Loop: drives the machine. Asks the engine, runs calls side by side, asks people for leave, and hands everything on.

It decides nothing: what comes next is the machine's word, and what a call comes to is the executor's. After every step
it writes itself down, so that another process can go on where this one stopped.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any

from ferrule.core.call import ToolCall
from ferrule.core.choice import ToolChoice
from ferrule.core.context import CallContext, Progress
from ferrule.core.ids import apart
from ferrule.core.message import ChatMessage, Role
from ferrule.core.message_json import messages_as_json
from ferrule.core.outcome import NotDelivered, Outcome
from ferrule.core.reply import Folding, Reply
from ferrule.core.request import ToolCallRequest
from ferrule.engines.engine import Engine
from ferrule.run.dispatcher import Dispatcher
from ferrule.run.events import (
    ConfirmationRequired,
    LoopEnded,
    LoopEvent,
    ToolFinished,
    ToolProgressed,
    ToolStarted,
)
from ferrule.run.journal import Decision, Entry, Journal, NoJournal
from ferrule.run.machine import Ask, End, Give, Machine, Run, Seek, Step, denial
from ferrule.run.reply_record import Took
from ferrule.run.tool_usage import selection_of

Decide = Callable[[ToolCall], Awaitable[Decision | None]]


async def nobody(call: ToolCall) -> Decision | None:
    """Where nobody is asked, nothing that changes the world happens."""
    return Decision(False, "nobody was there to allow it")


async def later(call: ToolCall) -> Decision | None:
    """Somebody will decide, elsewhere and in his own time: the turn ends waiting, and is gone on with after that."""
    return None


@dataclass(slots=True)
class Loop:
    """One run of the loop over one conversation; `added` are the messages that it brings.

    `place` is where it stands in the conversation. A machine that has begun already is gone on with.
    """

    engine: Engine
    executor: Dispatcher
    request: ToolCallRequest
    context: CallContext = field(default_factory=CallContext)
    decide: Decide = nobody
    machine: Machine = field(default_factory=Machine)
    added: list[ChatMessage] = field(default_factory=list[ChatMessage])
    reply: Reply = field(default_factory=Reply)
    journal: Journal = field(default_factory=NoJournal)
    place: str = "0"
    is_heard_first: bool = False
    """Whether everything told so far must have been taken before a state is kept: then no state is ahead of it."""
    _told: asyncio.Queue[LoopEvent] = field(default_factory=asyncio.Queue[LoopEvent])
    _heard: asyncio.Event = field(default_factory=asyncio.Event)
    _tasks: set[asyncio.Task[list[Step]]] = field(default_factory=set[asyncio.Task[list[Step]]])
    _words: str = ""

    async def stream(self) -> AsyncGenerator[LoopEvent]:
        """Everything as it happens; closing it cancels what is under way."""
        self.machine.policy = self.executor.policy
        driving = asyncio.ensure_future(self._drive())
        heard = asyncio.ensure_future(self._heard.wait())
        try:
            while True:
                # What was told at once is handed on at once: a wait costs more than an event.
                self._heard.clear()
                while not self._told.empty():
                    yield self._told.get_nowait()
                    self._told.task_done()
                if driving.done() and self._told.empty():
                    driving.result()
                    return
                if heard.done():
                    heard = asyncio.ensure_future(self._heard.wait())
                await asyncio.wait({heard, driving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            under_way = (heard, driving, *self._tasks)
            for task in under_way:
                task.cancel()
            await asyncio.gather(*under_way, return_exceptions=True)

    def _tell(self, event: LoopEvent) -> None:
        self._told.put_nowait(event)
        self._heard.set()

    def as_dict(self) -> dict[str, Any]:
        """Everything that another process needs to go on, as JSON."""
        return {"place": self.place, "added": messages_as_json(self.added), "machine": self.machine.as_dict()}

    async def _drive(self) -> None:
        started = time.monotonic() - self.machine.spent.seconds
        steps = self.machine.resume()
        while True:
            self._give(steps)
            # Between what has changed the machine and this there is no await, so both are of one moment.
            state = self.as_dict()
            if self.is_heard_first:
                await self._told.join()
            await self.journal.keep(state)
            self._take(steps)
            if not self._tasks:
                self._tell(LoopEnded(self.machine.state, self._words))
                return
            done, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
            self.machine.elapsed(time.monotonic() - started)
            self._tasks -= done
            steps = [step for task in done for step in task.result()]

    def _give(self, steps: list[Step]) -> None:
        for step in steps:
            if isinstance(step, Give):
                told = [self.executor.result_of(call, outcome, hint) for call, outcome, hint in step.results]
                self.added.append(ChatMessage(Role.TOOL, tuple(told)))

    def _take(self, steps: list[Step]) -> None:
        for step in steps:
            match step:
                case Ask():
                    self._begin(self._ask(step))
                case Run(call):
                    self._begin(self._run(call))
                case Seek(call):
                    self._begin(self._seek(call))
                case Give() | End():
                    pass

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
        folding, began = Folding(), time.monotonic()
        async with aclosing(self.engine.stream(asked)) as events:
            async for event in events:
                folding.add(event)
                self._tell(event)
        reply = _with_ids_apart(folding.reply())
        took = Took.of(reply, time.monotonic() - began)
        # Before the machine moves: its state is kept without another await in between.
        place, model = f"{self.place}.{self.machine.spent.rounds + 1}", asked.model or self.engine.traits.name
        await self.journal.replied(place, model, selection_of(asked, reply), took)
        self.reply = reply
        self.added.append(self.reply.as_message())
        needs_leave = {call.id for call in self.reply.calls if self.executor.requires_confirmation(call)}
        return self.machine.replied(self.reply, frozenset(needs_leave))

    async def _run(self, call: ToolCall) -> list[Step]:
        self._tell(ToolStarted(call))

        loop = asyncio.get_running_loop()

        def tell(progress: Progress) -> None:
            # A tool may be running in a thread.
            loop.call_soon_threadsafe(self._tell, ToolProgressed(call.id, progress))

        place = self._place_of(call)
        context = replace(self.context, call_id=self.journal.key(place, call), tell=tell)
        # What has happened has happened, also where the tool is gone since.
        outcome = await self.journal.known(place) or await self._begun(call, place, context)
        self._tell(ToolFinished(self.executor.result_of(call, outcome)))
        return self.machine.resulted(call.id, outcome)

    async def _begun(self, call: ToolCall, place: str, context: CallContext) -> Outcome:
        fault, entry = self.executor.fault_of(call, context), self._entry(call, place)
        if fault is None and entry is not None:
            return await self.journal.run(entry, lambda: self.executor.run(call, context))
        outcome = fault or NotDelivered("it is offered no longer")
        await self.journal.refuse(place, str(self.executor.result_of(call, outcome).content))
        return outcome

    async def _seek(self, call: ToolCall) -> list[Step]:
        place = self._place_of(call)
        if await self.journal.known(place) is not None:
            return self.machine.approved(call.id)
        entry = self._entry(call, place)
        if entry is None:
            return self._denied(call, "it is offered no longer")
        leave = await self.journal.ask(entry)
        decision = leave.decision
        if decision is None:
            self._tell(ConfirmationRequired(call, leave.approval))
            decision = await self.decide(call)
            if decision is not None:
                await self.journal.decided(leave.approval, decision)
            else:
                decision = await self.journal.awaited(leave.approval)
        if decision is None:
            return []
        if not decision.is_allowed:
            return self._denied(call, decision.why)
        return self.machine.approved(call.id, decision.arguments)

    def _denied(self, call: ToolCall, why: str) -> list[Step]:
        self._tell(ToolFinished(self.executor.result_of(call, denial(why))))
        return self.machine.denied(call.id, why)

    def _place_of(self, call: ToolCall) -> str:
        return f"{self.place}.{self.machine.place_of(call.id)}"

    def _entry(self, call: ToolCall, place: str) -> Entry | None:
        tool = self.executor.definition(call.name)
        return tool and Entry(place, call, tool, self.executor.requires_confirmation(call))


def _with_ids_apart(reply: Reply) -> Reply:
    """A model may give two calls of one turn the same id; their results could not be told apart."""
    ids = iter(apart(part.id for part in reply.parts if isinstance(part, ToolCall)))
    parts = tuple(replace(part, id=next(ids)) if isinstance(part, ToolCall) else part for part in reply.parts)
    return replace(reply, parts=parts)
