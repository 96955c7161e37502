"""LiveTurn: one answer over a WebSocket, over as many rounds as it takes, whether or not anybody is connected.

Where the gateway runs the calls, a turn that waits for leave goes on when it is decided on, here or elsewhere. Where
the caller does, it goes on when every call has its result.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from ferrule.core.call import ToolResult
from ferrule.core.choice import ChoiceMode
from ferrule.core.event import FinishReason, RuleShown
from ferrule.core.message import ChatMessage, Role
from ferrule.core.request import ToolCallRequest
from ferrule.dialects.frames import server_frames as out
from ferrule.dialects.frames.client_frames import ToolAnswer
from ferrule.errors import DefinitionError, EngineTimeoutError, FerruleError, NotFoundError
from ferrule.run.events import ConfirmationRequired, LoopEnded, LoopEvent
from ferrule.run.ledger.ledger import ApprovalState
from ferrule.run.machine import State
from ferrule.server.answer.turn import ToolOwner, Turn
from ferrule.server.gateway import Gateway
from ferrule.server.websocket.approval import asked_for
from ferrule.server.websocket.encoder import Telling, failed, handed_out
from ferrule.server.websocket.frame_log import FrameLog
from ferrule.server.websocket.raw_encoder import WireTelling

_LOOK_SECONDS = 1.0
"""How often the ledger is looked into for a decision that was made elsewhere."""


@dataclass(slots=True)
class LiveTurn:
    """`run` it once, as a task; then answer its calls, stir it when leave was given, or cancel it."""

    gateway: Gateway
    turn: Turn
    log: FrameLog
    waits_for: set[str] = field(default_factory=set[str])
    """The approvals that were asked for and, as far as is known here, not decided on."""
    _telling: Telling = field(init=False)
    _asked: set[str] = field(default_factory=set[str])
    _open: dict[str, str] = field(default_factory=dict[str, str])
    """The calls that the caller runs, with their tools' names."""
    _given: dict[str, ToolResult] = field(default_factory=dict[str, ToolResult])
    _stirred: asyncio.Event = field(default_factory=asyncio.Event)
    _task: asyncio.Task[None] | None = None
    _is_cancelled: bool = False

    def __post_init__(self) -> None:
        self._telling = (WireTelling if self.turn.request.shows_wire else Telling)(self.turn.tool_owner)

    @property
    def id(self) -> str:
        return self.log.turn

    async def run(self, started: out.Started) -> None:
        self._task = asyncio.current_task()
        self.log.add(started)
        try:
            async with asyncio.timeout(self.gateway.config.limits.total_seconds):
                words = await (self._by_gateway() if self.turn.tool_owner is ToolOwner.GATEWAY else self._by_caller())
            self.log.add(self._telling.done(words))
        except TimeoutError:
            late = EngineTimeoutError("the answer took too long", hint="Ask for less, or raise the limits.")
            self.log.add(failed(late))
        except FerruleError as error:
            self.log.add(failed(error))
        except asyncio.CancelledError:
            if not self._is_cancelled:
                raise
            self.log.add(replace(self._telling.done(), finish_reason="cancelled"))

    def cancel(self) -> None:
        """Stops the engine and the tools; the last frame says so."""
        # Once: a second time would break off what the first has begun to put in order.
        if self._task is not None and not self._is_cancelled and not self.log.is_ended:
            self._is_cancelled = True
            self._task.cancel()

    def stir(self) -> None:
        """Something that it may wait for has happened."""
        self._stirred.set()

    def answer(self, given: ToolAnswer) -> None:
        """The result of one of the caller's calls."""
        if given.id not in self._open:
            raise NotFoundError("no call with this id waits for a result", code="call_not_found", hint="See tool_call.")
        if given.id in self._given:
            raise DefinitionError("this call has its result already", code="call_answered", hint="Send each once.")
        self._given[given.id] = ToolResult(given.id, self._open[given.id], given.content, given.is_error)
        self.stir()

    async def _by_caller(self) -> str:
        request = self.turn.request
        while True:
            self._open, self._given = {}, {}
            ended = await self._streamed(self.gateway.answer(replace(self.turn, request=request)))
            reply = self._telling.reply
            if not reply.calls or self._telling.reason is FinishReason.LENGTH:
                return ended.words
            while len(self._given) < len(reply.calls):
                self._stirred.clear()
                await self._stirred.wait()
            results = tuple(self._given[call.id] for call in reply.calls)
            request = _going_on(request, reply.as_message(), ChatMessage(Role.TOOL, results))

    async def _by_gateway(self) -> str:
        turn = self.turn
        while True:
            ended = await self._streamed(self.gateway.answer(turn))
            if ended.state is not State.WAITING:
                return ended.words
            await self._decided()
            turn = replace(turn, resumes=turn.resumes or turn.conversation)

    async def _streamed(self, events: AsyncGenerator[LoopEvent]) -> LoopEnded:
        """Tells what happens until there is nothing more, under the deadlines of an answer."""
        limits, loop = self.gateway.config.limits, asyncio.get_running_loop()
        ended, shows_wire = LoopEnded(State.DONE), self.turn.request.shows_wire
        async with asyncio.timeout(limits.first_seconds) as patience, aclosing(events):
            async for event in events:
                for frame in self._telling.feed(event):
                    self._tell(frame)
                if shows_wire and isinstance(event, RuleShown):
                    # Ours and not the engine's: it has as long for its first word as without it.
                    continue
                if isinstance(event, ConfirmationRequired):
                    await self._ask_leave(event)
                elif isinstance(event, LoopEnded):
                    ended = event
                if self.log.is_full:
                    # A reader that is behind is not the engine's fault.
                    patience.reschedule(None)
                    await self.log.room()
                patience.reschedule(loop.time() + limits.between_seconds)
        return ended

    def _tell(self, frame: out.Outgoing) -> None:
        call = handed_out(frame)
        if call is not None:
            # Before it is sent: the result may come while the model writes the next call.
            self._open[call.id] = call.name
        self.log.add(frame)

    async def _ask_leave(self, event: ConfirmationRequired) -> None:
        self.waits_for.add(event.approval)
        approval = await self.gateway.ledger.approval(event.approval)
        if approval is not None and approval.id not in self._asked:
            # A loop that goes on asks again for what is still open.
            self._asked.add(approval.id)
            self._tell(asked_for(approval, event.call.id, self.gateway.toolbox.tools.get(event.call.name)))

    async def _decided(self) -> None:
        """Until one of the approvals can be gone on with."""
        while True:
            self._stirred.clear()
            for id in sorted(self.waits_for):
                known = await self.gateway.ledger.approval(id)
                if known and (known.state is not ApprovalState.PENDING or known.expires_at <= time.time()):
                    self.waits_for.discard(id)
                    return
            try:
                async with asyncio.timeout(_LOOK_SECONDS):
                    await self._stirred.wait()
            except TimeoutError:
                continue


def _going_on(request: ToolCallRequest, *said: ChatMessage) -> ToolCallRequest:
    """The next round. A call that was demanded has been made; demanded again, there would never be an answer."""
    choice = request.tool_choice
    if choice.mode is ChoiceMode.REQUIRED:
        choice = replace(choice, mode=ChoiceMode.AUTO)
    return replace(request, messages=(*request.messages, *said), tool_choice=choice)
