"""Responses that are not stored: they live as long as their connection and cannot be fetched afterwards.

Calls of the gateway's tools are still recorded in the ledger, so that they run at most once.
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
from ferrule.dialects.openai_responses.open_item import Events
from ferrule.dialects.openai_responses.responses_request import ResponsesRequest
from ferrule.dialects.sse import encode
from ferrule.errors import ApprovalError, FerruleError
from ferrule.run.conversation import ToolConversation
from ferrule.run.events import LoopEvent
from ferrule.run.lease import Lease
from ferrule.server.answer.flatten import ExtensionEvent, RoundFlattener
from ferrule.server.answer.stream import AnswerEvent, collect_answer, flatten_with_deadlines, stream_answer
from ferrule.server.answer.turn import ToolOwner, Turn
from ferrule.server.apis.responses.codec import KEEP_ALIVE, instruction_messages, new_loop_encoder, receipts_header
from ferrule.server.apis.responses.labels import executor_of
from ferrule.server.apis.responses.loop_events import InstructedEngine, LoopEventEncoder
from ferrule.server.apis.responses.plan import ResponsePlan, conflict, take_lease
from ferrule.server.apis.responses.store import ResponseStore
from ferrule.server.gateway import Gateway
from ferrule.server.http import AnyResponse, Request, Response
from ferrule.server.router import RoutedEngine


async def answer_directly(
    responses: ResponseStore,
    http_request: Request,
    responses_request: ResponsesRequest,
    plan: ResponsePlan,
    *,
    id: str,
    model: str,
) -> AnyResponse:
    gateway, principal = responses.gateway, http_request.principal
    encoder = new_loop_encoder(
        responses_request, plan.resume_record, responses.labels.hosts(principal), id=id, model=model
    )
    events = _events(gateway, responses_request, plan, principal)
    flattener = _ResponseFlattener(encoder)
    answer_events = flatten_with_deadlines(events, flattener, gateway.config.limits)
    if responses_request.stream:
        return await stream_answer(answer_events, _ResponseStreamEncoder(encoder), gateway.config.limits)
    await collect_answer(answer_events)
    body = encoder.encoder.response
    return Response.json(body, headers=receipts_header(body))


async def _events(
    gateway: Gateway, responses_request: ResponsesRequest, plan: ResponsePlan, principal: Principal
) -> AsyncGenerator[LoopEvent]:
    resume_record, messages = plan.resume_record, plan.messages or ()
    turn = Turn(
        request=resume_record.request,
        principal=principal,
        tool_owner=resume_record.tool_owner,
        tool_names=resume_record.tool_names,
    )
    if resume_record.tool_owner is not ToolOwner.GATEWAY:
        request = replace(resume_record.request, messages=(*instruction_messages(responses_request), *messages))
        async with aclosing(gateway.answer(replace(turn, request=request))) as events:
            async for event in events:
                yield event
        return
    # A conversation of its own, because no other response can continue from it.
    own_plan = plan if plan.messages is None else replace(plan, conversation=None)
    lease = await take_lease(gateway, own_plan, principal)
    try:
        await _record_verdicts(gateway, plan)
        lease_turn = replace(
            turn,
            request=replace(resume_record.request, messages=messages),
            resumes=lease.record.id if plan.messages is None else "",
            conversation=lease.record.id,
        )
        opener = _ConversationOpener(gateway, plan, principal, lease)
        async with aclosing(gateway.answer(lease_turn, opener.conversation)) as events:
            async for event in events:
                yield event
    finally:
        await lease.release()


async def _record_verdicts(gateway: Gateway, plan: ResponsePlan) -> None:
    try:
        for verdict in plan.verdicts:
            if verdict.is_allowed:
                await gateway.ledger.approve(verdict.approval, verdict.by, now=time.time())
            else:
                await gateway.ledger.deny(verdict.approval, verdict.by, verdict.why, now=time.time())
    except ApprovalError as refusal:
        raise conflict(refusal) from refusal


@dataclass(frozen=True, slots=True)
class _ConversationOpener:
    gateway: Gateway
    start: ResponsePlan
    principal: Principal
    holding: Lease

    async def conversation(self, turn: Turn, engine: RoutedEngine) -> ToolConversation:
        resume_record = self.start.resume_record
        return ToolConversation.with_lease(
            self.holding,
            engine if resume_record.instructions is None else InstructedEngine(engine, resume_record.instructions),
            executor_of(self.gateway, resume_record, self.principal),
            patience=self.gateway.config.approval_patience_seconds,
            request=replace(turn.request, messages=(), tools=()),
            context=CallContext(principal=self.principal),
        )


class _ResponseFlattener(RoundFlattener):
    """Encodes all events as response events inside extension events, because response events are not model events."""

    def __init__(self, encoder: LoopEventEncoder) -> None:
        super().__init__()
        self._loop_encoder = encoder

    def feed(self, event: LoopEvent) -> list[Event | ExtensionEvent]:
        events = [*self._loop_encoder.begin(), *self._loop_encoder.encode(event)]
        return [ExtensionEvent(one) for one in events]


class _ResponseStreamEncoder:
    keep_alive = KEEP_ALIVE

    def __init__(self, encoder: LoopEventEncoder) -> None:
        self._loop_encoder = encoder

    def feed(self, event: AnswerEvent, /) -> bytes:
        return _encode_events([event.data]) if isinstance(event, ExtensionEvent) else b""

    def fail(self, error: FerruleError, /) -> bytes:
        return _encode_events(self._loop_encoder.encoder.fail(error))

    def end(self) -> bytes:
        return b""


def _encode_events(events: Events | list[dict[str, Any]]) -> bytes:
    return b"".join([encode(dumps(event), event["type"]) for event in events])
