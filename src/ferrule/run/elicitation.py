"""What an MCP server asks a person in the course of a call, answered through approvals.

The question stands in the ledger like a call that waits for leave: whoever may decide there fills in `answer`, or says
no. It is shown escaped and whole, used once, and audited. Nobody in time is no answer.
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
_MARGIN = 60.0


@dataclass(frozen=True, slots=True)
class ThroughApprovals:
    """Give it to `McpServers` as `elicit`. `patience` is for how many seconds a person is waited for."""

    ledger: Ledger
    patience: float = 300.0
    clock: Callable[[], float] = time.time
    poll_seconds: float = 0.2

    async def __call__(self, asked: Elicitation) -> ElicitAnswer:
        who = asked.context.principal if asked.context else Principal()
        conversation = f"asked-{uuid.uuid4().hex}"
        lease = self.patience + _MARGIN
        record = await self.ledger.open(conversation, who, conversation, lease, now=self.clock())
        claim = _claim(conversation, who, asked)
        await self.ledger.propose(claim, record.epoch, side_effects=False, needs_leave=True, now=self.clock())
        expires = self.clock() + self.patience
        leave = await self.ledger.request_approval(conversation, _CALL, record.epoch, expires=expires, now=self.clock())
        try:
            decided = await self._decided(leave, expires)
            if decided.state is not ApprovalState.APPROVED:
                return ElicitAnswer("decline" if decided.state is ApprovalState.DENIED else "cancel")
            given = replace(claim, arguments=decided.arguments)
            await self.ledger.start(given, record.epoch, approval=leave.id, now=self.clock())
            await self.ledger.finish(conversation, _CALL, record.epoch, Answered("answered"), now=self.clock())
            return _answer_in(decided)
        finally:
            await self.ledger.release(conversation, record.epoch, now=self.clock())

    async def _decided(self, leave: Approval, until: float) -> Approval:
        while leave.state is ApprovalState.PENDING and self.clock() < until:
            await asyncio.sleep(self.poll_seconds)
            leave = await self.ledger.approval(leave.id) or leave
        return leave


def _claim(conversation: str, who: Principal, asked: Elicitation) -> Claim:
    question: dict[str, Any] = {"message": asked.message, "answer": {}}
    if asked.url:
        question["url"] = asked.url
    if asked.schema:
        question["schema"] = dict(asked.schema)
    tool = f"{asked.server[:200]} asks"
    return Claim(conversation, _CALL, who.tenant, who.name, tool, digest(dict(asked.schema)), canonical_bytes(question))


def _answer_in(leave: Approval) -> ElicitAnswer:
    question: Any = loads(leave.arguments.decode())
    answer = question.get("answer")
    return ElicitAnswer("accept", cast("dict[str, Any]", answer) if isinstance(answer, dict) else {})
