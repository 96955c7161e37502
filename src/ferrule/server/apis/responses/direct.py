"""Responses that are not stored: they live as long as their connection and cannot be fetched afterwards.

Calls of the gateway's tools are still recorded in the ledger, so that they run at most once.
"""

from __future__ import annotations

import time
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

from ferrule.core.context import Principal
from ferrule.core.json_text import dumps
from ferrule.dialects.openai_responses.open_item import Events
from ferrule.dialects.openai_responses.responses_request import ResponsesRequest
from ferrule.dialects.sse import DONE, encode_json_text
from ferrule.engines.engine import Engine
from ferrule.errors import ApprovalError, FerruleError
from ferrule.run.conversation import ToolConversation
from ferrule.run.events import LoopEvent
from ferrule.server.answer.claim import claim_answer, claimed
from ferrule.server.answer.confirming_executor import executor_of
from ferrule.server.answer.plan import ToolOwner, Turn, new_conversation_id
from ferrule.server.answer.response import stream_answer
from ferrule.server.answer.stream import AnswerStream, conversation_options
from ferrule.server.apis.responses.codec import KEEP_ALIVE, instruction_messages, new_loop_encoder, receipts_header
from ferrule.server.apis.responses.loop_events import LoopEventEncoder
from ferrule.server.apis.responses.plan import ResponsePlan, conflict
from ferrule.server.apis.responses.store import ResponseStore
from ferrule.server.gateway import Gateway
from ferrule.server.http import AnyResponse, Request, Response


async def answer_directly(
    responses: ResponseStore,
    http_request: Request,
    responses_request: ResponsesRequest,
    plan: ResponsePlan,
    body: dict[str, Any],
    *,
    id: str,
    model: str,
) -> AnyResponse:
    gateway, principal = responses.gateway, http_request.principal
    loop_encoder = new_loop_encoder(
        responses_request, plan.resume_record, responses.labels.hosts(principal), id=id, model=model
    )
    turn = _turn(responses_request, plan, principal)
    if not turn.resumes:
        answer = await claim_answer(gateway, http_request, body, plan.resume_record, turn.conversation)
        turn = turn if answer is None else claimed(turn, http_request, answer)
    events = AnswerStream(gateway, turn, _ConversationOpener(gateway, plan).open)
    encoder = _ResponseStreamEncoder(loop_encoder)
    if responses_request.stream:
        return await stream_answer(events, encoder, gateway.config.limits)
    async with aclosing(events):
        async for event in events:
            encoder.events_of(event)
    response = loop_encoder.encoder.response
    return Response.json(response, headers={**events.headers, **receipts_header(response)})


def _turn(responses_request: ResponsesRequest, plan: ResponsePlan, principal: Principal) -> Turn:
    resume_record, messages = plan.resume_record, plan.messages or ()
    gateway_runs_calls = resume_record.tool_owner is ToolOwner.GATEWAY
    instructions = () if gateway_runs_calls else instruction_messages(responses_request)
    # A conversation of its own, because no other response can continue from it; or the one whose turn waits.
    resumes = (plan.conversation or "") if gateway_runs_calls and plan.messages is None else ""
    return Turn(
        request=replace(resume_record.request, messages=(*instructions, *messages)),
        principal=principal,
        tool_owner=resume_record.tool_owner,
        tool_names=resume_record.tool_names,
        resumes=resumes,
        conversation=resumes or new_conversation_id(),
    )


@dataclass(frozen=True, slots=True)
class _ConversationOpener:
    gateway: Gateway
    plan: ResponsePlan

    async def open(self, turn: Turn, engine: Engine) -> ToolConversation:
        gateway, resume_record = self.gateway, self.plan.resume_record
        conversation = await ToolConversation.open(
            gateway.ledger,
            turn.conversation,
            engine,
            executor_of(gateway, resume_record, turn.principal),
            lease=gateway.config.lease_seconds,
            waits=turn.is_claimed,
            client_tools=turn.request.tools,
            **conversation_options(gateway, turn, resume_record.instructions),
        )
        try:
            await self._record_verdicts()
        except FerruleError:
            await conversation.close()
            raise
        return conversation

    async def _record_verdicts(self) -> None:
        ledger = self.gateway.ledger
        try:
            for verdict in self.plan.verdicts:
                if verdict.is_allowed:
                    await ledger.approve(verdict.approval, verdict.by, now=time.time())
                else:
                    await ledger.deny(verdict.approval, verdict.by, verdict.why, now=time.time())
        except ApprovalError as refusal:
            raise conflict(refusal) from refusal


class _ResponseStreamEncoder:
    keep_alive = KEEP_ALIVE

    def __init__(self, encoder: LoopEventEncoder) -> None:
        self._loop_encoder = encoder

    def events_of(self, event: LoopEvent) -> list[dict[str, Any]]:
        return [*self._loop_encoder.begin(), *self._loop_encoder.encode(event)]

    def feed(self, event: LoopEvent, /) -> bytes:
        return _encode_events(self.events_of(event))

    def fail(self, error: FerruleError, /) -> bytes:
        return _encode_events(self._loop_encoder.encoder.fail(error)) + DONE

    def end(self) -> bytes:
        return DONE


def _encode_events(events: Events | list[dict[str, Any]]) -> bytes:
    return b"".join([encode_json_text(dumps(event), event["type"]) for event in events])
