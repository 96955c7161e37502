"""Run: one kept response while this process works on it, apart from any client's connection.

It holds the response's conversation in the ledger, drives the gateway, and tells what comes of it. Where this process
dies, another makes a run of what is in the ledger and goes on: what was told stays told.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import AsyncExitStack, aclosing, suppress
from dataclasses import dataclass, field, replace
from typing import Any

from ferrule.core.call import FunctionCall, ToolCall
from ferrule.core.context import CallContext, Principal
from ferrule.core.message import ChatMessage, Text
from ferrule.core.message_json import messages_as_json, messages_from_json
from ferrule.core.reply import Folding, Reply, ReplyPart
from ferrule.dialects.openai_responses.open_item import Told
from ferrule.errors import DrainingError, FencedError, FerruleError, LedgerUnavailableError
from ferrule.run.conversation import ToolConversation
from ferrule.run.events import LoopEnded, LoopEvent
from ferrule.run.lease import Holding
from ferrule.run.ledger.ledger import ApprovalState, ResponseRecord, ResponseStatus
from ferrule.run.machine import State
from ferrule.server.answer.turn import ToolOwner, Turn
from ferrule.server.apis.responses.encoder import Telling
from ferrule.server.apis.responses.labels import executor_of
from ferrule.server.apis.responses.loop_events import Instructed, Speech, in_time
from ferrule.server.apis.responses.resume_record import Plan
from ferrule.server.gateway import Gateway
from ferrule.server.router import RoutedEngine

# The conversation is another's now, the ledger cannot be written, or this process is being stopped: whoever can goes on
# with it, from what is written.
_LOST = (FencedError, LedgerUnavailableError, DrainingError)


@dataclass(slots=True)
class Run:
    """`principal` is who asked, with the rights that he has now."""

    gateway: Gateway
    record: ResponseRecord
    plan: Plan
    principal: Principal
    holding: Holding
    speech: Speech
    telling: Telling
    earlier: tuple[ReplyPart, ...] = ()
    """What owners before this one had told whole of the caller's calls and of texts."""
    error: FerruleError | None = None
    _last: Told = field(default_factory=list[dict[str, Any]])
    _conversation: ToolConversation | None = None

    async def go(self, failure: FerruleError | None = None) -> None:
        """Until the response has ended, or is not this process's any more. Cancelled, it is left for another.

        `failure` is why it cannot be gone on with.
        """
        self.error = failure
        try:
            if failure is None and not self.telling.cancelled.is_set():
                await self._driven()
            if not self.telling.is_over:
                encoder = self.speech.encoder
                await self._end(encoder.fail(self.error) if self.error else encoder.cancel())
        except _LOST:
            return
        finally:
            await self.telling.stop()
            if not self.telling.has_ended:
                with suppress(*_LOST):
                    await self.holding.release()

    async def _driven(self) -> None:
        answering = asyncio.ensure_future(self._answered())
        telling = asyncio.ensure_future(self.telling.go_on())
        cancelled = asyncio.ensure_future(self.telling.cancelled.wait())
        try:
            await asyncio.wait({answering, telling, cancelled}, return_when=asyncio.FIRST_COMPLETED)
            for task in (answering, telling):
                if task.done():
                    task.result()
        except _LOST:
            raise
        except FerruleError as error:
            self.error = error
        finally:
            await _stopped(answering, telling, cancelled)

    async def _answered(self) -> None:
        async with AsyncExitStack() as stack:
            if self.plan.whose is ToolOwner.GATEWAY:
                self.holding.keeper = self._keep
            else:
                await stack.enter_async_context(self.holding)
            self.telling.add(self.speech.begun())
            reply = await self._heard(self._events())
            if self.plan.whose is not ToolOwner.GATEWAY:
                await self._end(self._last, self._state_after(reply))

    def _events(self) -> AsyncGenerator[LoopEvent]:
        state = self.holding.record.state
        plan, messages = self.plan, messages_from_json(state["messages"])
        first = () if plan.instructions is None else (ChatMessage.system(plan.instructions),)
        is_gateways = plan.whose is ToolOwner.GATEWAY
        turn = Turn(
            request=replace(plan.request, messages=messages if is_gateways else (*first, *messages)),
            principal=self.principal,
            tool_owner=plan.whose,
            names=plan.names,
            resumes=self.record.conversation if state["loop"] else "",
            conversation=self.record.conversation,
        )
        return self.gateway.answer(turn, self._opened)

    async def _heard(self, events: AsyncGenerator[LoopEvent]) -> Reply:
        folding = Folding()
        async with aclosing(in_time(events, self.gateway.config.limits)) as timed:
            async for event in timed:
                if isinstance(event, LoopEnded):
                    await self._forget_decided(event)
                    # Told together with the end itself, so that none is without the other.
                    self._last = self.speech.heard(event)
                    continue
                self.telling.add(self.speech.heard(event))
                if self.plan.whose is not ToolOwner.GATEWAY:
                    folding.add(event)  # pyright: ignore[reportArgumentType]  # without a loop there is nothing else
                if self.telling.is_full:
                    await self.telling.flush()
        return folding.reply()

    async def _forget_decided(self, ended: LoopEnded) -> None:
        """Of calls that somebody decided on elsewhere while this one waited nothing is asked."""
        if ended.state is State.WAITING:
            for call_id, approval in self.speech.asked.items():
                asked = await self.gateway.ledger.approval(approval)
                if asked is None or asked.state is not ApprovalState.PENDING:
                    self.speech.encoder.denied(call_id)

    async def _opened(self, turn: Turn, engine: RoutedEngine) -> ToolConversation:
        instructions = self.plan.instructions
        conversation = ToolConversation.held(
            self.holding,
            engine if instructions is None else Instructed(engine, instructions),
            executor_of(self.gateway, self.plan, self.principal),
            patience=self.gateway.config.approval_patience_seconds,
            request=replace(turn.request, messages=(), tools=()),
            context=CallContext(principal=self.principal),
        )
        if not conversation.is_unfinished:
            # The turn brings all of them again.
            conversation.messages = []
        self._conversation = conversation
        return conversation

    async def _keep(self, state: dict[str, Any]) -> None:
        """The loop's state and everything told before it, in one transaction: neither is ever ahead of the other."""
        status = ResponseStatus(self.speech.encoder.response["status"]) if self._last else None
        await self.telling.flush(self._last, state=state, status=status, reach=len(state["messages"]))

    async def _end(self, last: Told, state: dict[str, Any] | None = None) -> None:
        if state is None and self._conversation is not None:
            state = self._conversation.abandon()
        held = state or self.holding.record.state
        status = ResponseStatus(self.speech.encoder.response["status"])
        reach = len(held["messages"]) if held else 0
        await self.telling.flush(last, state=state, status=status, reach=reach)

    def _state_after(self, reply: Reply) -> dict[str, Any]:
        state = self.holding.record.state
        said = replace(reply, parts=(*self.earlier, *reply.parts)).as_message()
        return {**state, "messages": [*state["messages"], *messages_as_json([said])]}


def told_parts(output: Iterable[dict[str, Any]]) -> tuple[ReplyPart, ...]:
    """What items that were told whole say: a client may answer to a call of an owner who died."""
    found: list[ReplyPart] = []
    for item in output:
        match item:
            case {"type": "function_call", "status": "completed", "call_id": id, "name": name, "arguments": arguments}:
                found.append(ToolCall(id, FunctionCall(name, arguments)))
            case {"type": "message", "status": "completed", "content": content}:
                found.append(Text("".join(part["text"] for part in content)))
            case _:
                pass
    return tuple(found)


async def _stopped(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
