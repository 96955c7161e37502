"""Answers elicitations of MCP servers (questions to a person in the middle of a call) through approvals.

The question is recorded in the ledger like a call that is waiting for approval. Anyone who may decide approvals fills
in `answer`, or denies it. It is shown completely and escaped, used once, and audited. If nobody decides in time, the
server gets no answer.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

from ferrule.core.context import Principal
from ferrule.core.json_text import digest, loads
from ferrule.core.outcome import Answered
from ferrule.run.ledger.claim import Claim, canonical_bytes
from ferrule.run.ledger.ledger import Approval, ApprovalState, Ledger
from ferrule.sources.mcp.elicitation import ElicitAnswer, Elicitation

_CALL = "question"
# The lease outlasts the wait for the decision by this much.
_MARGIN = 60.0


@dataclass(frozen=True, slots=True)
class ApprovalElicitationHandler:
    """Pass it to `McpServers` as `elicit`. It waits `patience` seconds for a decision."""

    ledger: Ledger
    patience: float = 300.0
    clock: Callable[[], float] = time.time
    poll_seconds: float = 0.2

    async def __call__(self, elicitation: Elicitation) -> ElicitAnswer:
        principal = elicitation.context.principal if elicitation.context else Principal()
        conversation = f"asked-{uuid.uuid4().hex}"
        lease = self.patience + _MARGIN
        record = await self.ledger.open(conversation, principal, conversation, lease, now=self.clock())
        claim = _claim(conversation, principal, elicitation)
        await self.ledger.propose(claim, record.epoch, side_effects=False, needs_approval=True, now=self.clock())
        expires = self.clock() + self.patience
        approval = await self.ledger.request_approval(
            conversation, _CALL, record.epoch, expires=expires, now=self.clock()
        )
        try:
            decision = await self._wait_for_decision(approval, expires)
            if decision.state is not ApprovalState.APPROVED:
                return ElicitAnswer("decline" if decision.state is ApprovalState.DENIED else "cancel")
            answered_claim = replace(claim, arguments=decision.arguments)
            await self.ledger.start(answered_claim, record.epoch, approval=approval.id, now=self.clock())
            await self.ledger.finish(conversation, _CALL, record.epoch, Answered("answered"), now=self.clock())
            return _answer_of(decision)
        finally:
            await self.ledger.release(conversation, record.epoch, now=self.clock())

    async def _wait_for_decision(self, approval: Approval, until: float) -> Approval:
        while approval.state is ApprovalState.PENDING and self.clock() < until:
            await asyncio.sleep(self.poll_seconds)
            approval = await self.ledger.approval(approval.id) or approval
        return approval


def _claim(conversation: str, principal: Principal, elicitation: Elicitation) -> Claim:
    question: dict[str, Any] = {"message": elicitation.message, "answer": {}}
    if elicitation.url:
        question["url"] = elicitation.url
    if elicitation.schema:
        question["schema"] = dict(elicitation.schema)
    tool = f"{elicitation.server[:200]} asks"
    return Claim(
        conversation,
        _CALL,
        principal.tenant,
        principal.name,
        tool,
        digest(dict(elicitation.schema)),
        canonical_bytes(question),
    )


def _answer_of(approval: Approval) -> ElicitAnswer:
    question: Any = loads(approval.arguments.decode())
    answer = question.get("answer")
    return ElicitAnswer("accept", cast("dict[str, Any]", answer) if isinstance(answer, dict) else {})
