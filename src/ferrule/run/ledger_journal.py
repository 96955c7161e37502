"""LedgerJournal: records the loop of one conversation in a ledger, for the process that owns the conversation.

A call is committed as started before its effect begins, and is found again by its place. After a crash the next owner
learns the outcome, or that it is unknown, and never starts the effect again. A call without side effects may be
started again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace

from ferrule.core.call import ToolCall
from ferrule.core.context import Principal
from ferrule.core.json_text import dumps, loads
from ferrule.core.outcome import Answered, Outcome, Unknown
from ferrule.errors import ApprovalError
from ferrule.run.journal import ApprovalRequest, CallEntry, Decision, Effect, LoopState
from ferrule.run.ledger.claim import Claim, canonical_bytes
from ferrule.run.ledger.ledger import Approval, ApprovalState, CallRecord, CallState, Ledger
from ferrule.run.reply_record import ReplyCost, ReplyRecord
from ferrule.run.tool_usage import ToolUsage

_DECIDED = frozenset({ApprovalState.APPROVED, ApprovalState.DENIED, ApprovalState.REDEEMED})
_UNSTARTED = frozenset({CallState.PROPOSED, CallState.AWAITING_APPROVAL, CallState.APPROVED})
# Appended to the place of a call without side effects, once for each attempt whose outcome was lost.
_RETRY_SUFFIX = "~"
_LOST_OUTCOME = Unknown("it was started before, and its outcome was not recorded", code="owner_lost")
# The outcome of a call whose record has a state but no outcome.
_OUTCOME_BY_STATE: Mapping[CallState, Outcome] = {
    CallState.STARTED: _LOST_OUTCOME,
    CallState.REFUSED: Answered("refused: it may not run", is_error=True, code="refused"),
}


@dataclass(slots=True)
class LedgerJournal:
    """`save` saves a loop's state as part of the conversation's."""

    ledger: Ledger
    conversation: str
    principal: Principal
    epoch: int
    save: Callable[[LoopState], Awaitable[None]]
    approval_seconds: float = 24 * 3600.0
    """How long a requested approval can be given and used."""
    patience: float = 0.0
    """How many seconds to wait for a decision made elsewhere before the turn ends without it."""
    clock: Callable[[], float] = time.time
    poll_seconds: float = 0.2

    def idempotency_key(self, place: str, call: ToolCall) -> str:
        return f"{self.conversation}/{place}"

    async def save_state(self, state: LoopState, /) -> None:
        await self.save(state)

    async def record_reply(self, place: str, model: str, usage: ToolUsage | None, cost: ReplyCost, /) -> None:
        reply = ReplyRecord(self.conversation, place, model, usage, cost)
        await self.ledger.record_reply(reply, self.epoch, now=self.clock())

    async def find_outcome(self, place: str, /) -> Outcome | None:
        _, record = await self._find_call(place)
        if record is None or record.state in _UNSTARTED:
            return None
        return record.outcome or _OUTCOME_BY_STATE.get(record.state)

    async def run(self, entry: CallEntry, effect: Effect, /) -> Outcome:
        place, record = await self._find_call(entry.place)
        entry = replace(entry, place=place)
        record = record or await self._propose(entry)
        if record.state not in _UNSTARTED:
            return record.outcome or _LOST_OUTCOME
        # An approver may have changed the arguments to some that need no approval: this call was proposed with others.
        entry = replace(entry, needs_approval=record.needs_approval)
        try:
            is_ours = await self._start(entry)
        except ApprovalError as refusal:
            await self.refuse(entry.place, refusal.message)
            return Answered(f"denied: {refusal.message}", is_error=True, code=refusal.code)
        if not is_ours:
            ended = await self.ledger.call(self.conversation, entry.place)
            return (ended.outcome if ended else None) or _LOST_OUTCOME
        outcome = await effect()
        await self.ledger.finish(self.conversation, entry.place, self.epoch, outcome, now=self.clock())
        return outcome

    async def refuse(self, place: str, why: str, /) -> None:
        record = await self.ledger.call(self.conversation, place)
        if record is not None and record.state in _UNSTARTED:
            await self.ledger.refuse(self.conversation, place, self.epoch, why, now=self.clock())

    async def request_approval(self, entry: CallEntry, /) -> ApprovalRequest:
        if await self.ledger.call(self.conversation, entry.place) is None:
            await self._propose(entry)
        approval = await self.ledger.approval_for(self.conversation, entry.place)
        now = self.clock()
        if approval is None or (approval.state is not ApprovalState.REDEEMED and _is_expired(approval, now)):
            seconds = self.approval_seconds if entry.terms.seconds is None else entry.terms.seconds
            approval = await self.ledger.request_approval(
                self.conversation, entry.place, self.epoch, expires=now + seconds, terms=entry.terms, now=now
            )
        return ApprovalRequest(approval.id, _decision_on(approval))

    async def record_decision(self, approval: str, decision: Decision, /) -> None:
        by, now = self.principal.name, self.clock()
        if not decision.is_allowed:
            await self.ledger.deny(approval, by, decision.why, now=now)
            return
        arguments = None if decision.arguments is None else canonical_bytes(loads(decision.arguments))
        await self.ledger.approve(approval, by, arguments, now=now)

    async def wait_for_decision(self, approval: str, /) -> Decision | None:
        until = self.clock() + self.patience
        while True:
            record = await self.ledger.approval(approval)
            decision = _decision_on(record) if record else None
            if decision is not None or self.clock() >= until:
                return decision
            await asyncio.sleep(self.poll_seconds)

    async def _find_call(self, place: str) -> tuple[str, CallRecord | None]:
        """Find the record of a call. If it has no side effects and its outcome was lost, find its next attempt."""
        while True:
            record = await self.ledger.call(self.conversation, place)
            if record is None or record.state is not CallState.UNKNOWN or record.side_effects:
                return place, record
            place += _RETRY_SUFFIX

    async def _propose(self, entry: CallEntry) -> CallRecord:
        return await self.ledger.propose(
            self._claim(entry),
            self.epoch,
            side_effects=entry.tool.side_effects,
            needs_approval=entry.needs_approval,
            now=self.clock(),
        )

    async def _start(self, entry: CallEntry) -> bool:
        record = await self.ledger.approval_for(self.conversation, entry.place) if entry.needs_approval else None
        approval = record.id if record else ""
        return await self.ledger.start(self._claim(entry), self.epoch, approval=approval, now=self.clock())

    def _claim(self, entry: CallEntry) -> Claim:
        return Claim.of(self.conversation, self.principal, replace(entry.call, id=entry.place), entry.tool)


def _is_expired(approval: Approval, now: float) -> bool:
    is_open = approval.state in (ApprovalState.PENDING, ApprovalState.APPROVED)
    return approval.state is ApprovalState.REPLACED or (is_open and approval.expires_at <= now)


def _decision_on(approval: Approval) -> Decision | None:
    if approval.state not in _DECIDED:
        return None
    if approval.state is ApprovalState.DENIED:
        return Decision(False, approval.why)
    return Decision(True, arguments=dumps(loads(approval.arguments.decode())))
