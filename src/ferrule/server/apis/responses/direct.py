"""A response that is not stored: it lives as long as its connection, and nothing of it can be fetched afterwards.

What the gateway's own tools do in it is in the ledger all the same, so that it happens at most once.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

from ferrule.core.context import CallContext, Principal
from ferrule.core.event import Event
from ferrule.core.json_text import dumps
from ferrule.dialects.openai_responses.open_item import Told
from ferrule.dialects.openai_responses.responses_request import ResponsesAsk
from ferrule.dialects.sse import encode
from ferrule.errors import ApprovalError, FerruleError
from ferrule.run.conversation import ToolConversation
from ferrule.run.events import LoopEvent
from ferrule.run.lease import Holding
from ferrule.server.answer.flatten import Aside, Rounds
from ferrule.server.answer.stream import Said, said_in, streamed, whole
from ferrule.server.answer.turn import ToolOwner, Turn
from ferrule.server.apis.responses.codec import KEEP_ALIVE, instructed, receipts_header, speech_of
from ferrule.server.apis.responses.labels import executor_of
from ferrule.server.apis.responses.loop_events import Instructed, Speech
from ferrule.server.apis.responses.plan import Start, conflict, held
from ferrule.server.apis.responses.store import Responses
from ferrule.server.gateway import Gateway
from ferrule.server.http import Answer, Asked, Whole
from ferrule.server.router import RoutedEngine


async def answered_directly(
    responses: Responses, asked: Asked, ask: ResponsesAsk, start: Start, *, id: str, model: str
) -> Answer:
    gateway, principal = responses.gateway, asked.principal
    speech = speech_of(ask, start.plan, responses.labels.hosts(principal), id=id, model=model)
    events = _events(gateway, ask, start, principal)
    rounds = _Heard(speech)
    said = said_in(events, rounds, gateway.config.limits)
    if ask.stream:
        return await streamed(said, _Spoken(speech), gateway.config.limits)
    await whole(said)
    body = speech.encoder.response
    return Whole.of(body, headers=receipts_header(body))


async def _events(gateway: Gateway, ask: ResponsesAsk, start: Start, principal: Principal) -> AsyncGenerator[LoopEvent]:
    plan, messages = start.plan, start.messages or ()
    turn = Turn(request=plan.request, principal=principal, tool_owner=plan.whose, names=plan.names)
    if plan.whose is not ToolOwner.GATEWAY:
        request = replace(plan.request, messages=(*instructed(ask), *messages))
        async with aclosing(gateway.answer(replace(turn, request=request))) as events:
            async for event in events:
                yield event
        return
    # A conversation of its own: nothing of it is kept for others to go on from.
    alone = start if start.messages is None else replace(start, conversation=None)
    holding = await held(gateway, alone, principal)
    try:
        await _judged(gateway, start)
        opened = replace(
            turn,
            request=replace(plan.request, messages=messages),
            resumes=holding.record.id if start.messages is None else "",
            conversation=holding.record.id,
        )
        opens = _Opens(gateway, start, principal, holding)
        async with aclosing(gateway.answer(opened, opens.conversation)) as events:
            async for event in events:
                yield event
    finally:
        await holding.release()


async def _judged(gateway: Gateway, start: Start) -> None:
    try:
        for verdict in start.verdicts:
            if verdict.is_allowed:
                await gateway.ledger.approve(verdict.approval, verdict.by, now=time.time())
            else:
                await gateway.ledger.deny(verdict.approval, verdict.by, verdict.why, now=time.time())
    except ApprovalError as refusal:
        raise conflict(refusal) from refusal


@dataclass(frozen=True, slots=True)
class _Opens:
    gateway: Gateway
    start: Start
    principal: Principal
    holding: Holding

    async def conversation(self, turn: Turn, engine: RoutedEngine) -> ToolConversation:
        plan = self.start.plan
        return ToolConversation.held(
            self.holding,
            engine if plan.instructions is None else Instructed(engine, plan.instructions),
            executor_of(self.gateway, plan, self.principal),
            patience=self.gateway.config.approval_patience_seconds,
            request=replace(turn.request, messages=(), tools=()),
            context=CallContext(principal=self.principal),
        )


class _Heard(Rounds):
    """Everything as events of the response, told as asides: of a response's events none is the model's own."""

    def __init__(self, speech: Speech) -> None:
        super().__init__()
        self._speech = speech

    def feed(self, event: LoopEvent) -> list[Event | Aside]:
        told = [*self._speech.begun(), *self._speech.heard(event)]
        return [Aside(one) for one in told]


class _Spoken:
    keep_alive = KEEP_ALIVE

    def __init__(self, speech: Speech) -> None:
        self._speech = speech

    def feed(self, said: Said, /) -> bytes:
        return _named([said.told]) if isinstance(said, Aside) else b""

    def fail(self, error: FerruleError, /) -> bytes:
        return _named(self._speech.encoder.fail(error))

    def end(self) -> bytes:
        return b""


def _named(told: Told | list[dict[str, Any]]) -> bytes:
    return b"".join([encode(dumps(one), one["type"]) for one in told])
