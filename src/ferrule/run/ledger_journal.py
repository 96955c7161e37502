"""LedgerJournal: the loop of one conversation, written down in a ledger by the one who holds it.

A call is committed as started before its effect begins, and found again by its place; so whoever goes on after a crash
learns what became of it, or that nobody can say, and never begins it again. A call that only reads may be begun anew.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ferrule.core.call import ToolCall
from ferrule.core.context import Principal
from ferrule.core.json_text import dumps, loads
from ferrule.core.outcome import Answered, Outcome, Unknown
from ferrule.errors import ApprovalError
from ferrule.run.journal import Decision, Effect, Entry, Leave
from ferrule.run.ledger.claim import Claim, canonical_bytes
from ferrule.run.ledger.ledger import Approval, ApprovalState, CallRecord, CallState, Ledger
from ferrule.run.reply_record import Replied, Took
from ferrule.run.tool_usage import Selection

_DECIDED = frozenset({ApprovalState.APPROVED, ApprovalState.DENIED, ApprovalState.REDEEMED})
_UNSTARTED = frozenset({CallState.PROPOSED, CallState.AWAITING_APPROVAL, CallState.APPROVED})
# Behind the place of a call that only reads, once for each time that its outcome was lost.
_AGAIN = "~"
_OTHERS = Unknown("it was begun before, and what became of it was not written down", code="owner_lost")
# What is told of a call that has no outcome written beside its state.
_LEFT_OPEN: Mapping[CallState, Outcome] = {
    CallState.STARTED: _OTHERS,
    CallState.REFUSED: Answered("refused: it may not run", is_error=True, code="refused"),
}


@dataclass(slots=True)
class LedgerJournal:
    """`keeps` is what is kept of a loop's state, which is a part of the conversation's."""

    ledger: Ledger
    conversation: str
    principal: Principal
    epoch: int
    keeps: Callable[[dict[str, Any]], dict[str, Any]] = lambda state: state
    leave_seconds: float = 24 * 3600.0
    """How long leave that was asked for can be given and used."""
    patience: float = 0.0
    """How long a decision made elsewhere is waited for before the turn ends without it."""
    clock: Callable[[], float] = time.time
    poll_seconds: float = 0.2
    saves: Callable[[dict[str, Any]], Awaitable[None]] | None = None
    """Where the state goes; by itself, to the ledger."""

    def key(self, place: str, call: ToolCall) -> str:
        return f"{self.conversation}/{place}"

    async def keep(self, state: dict[str, Any], /) -> None:
        if self.saves is not None:
            await self.saves(self.keeps(state))
            return
        await self.ledger.save(self.conversation, self.epoch, self.keeps(state), now=self.clock())

    async def replied(self, place: str, model: str, selection: Selection | None, took: Took, /) -> None:
        reply = Replied(self.conversation, place, model, selection, took)
        await self.ledger.note_reply(reply, self.epoch, now=self.clock())

    async def known(self, place: str, /) -> Outcome | None:
        _, known = await self._found(place)
        if known is None or known.state in _UNSTARTED:
            return None
        return known.outcome or _LEFT_OPEN.get(known.state)

    async def run(self, entry: Entry, effect: Effect, /) -> Outcome:
        place, known = await self._found(entry.place)
        entry = replace(entry, place=place)
        known = known or await self._propose(entry)
        if known.state not in _UNSTARTED:
            return known.outcome or _OTHERS
        try:
            is_ours = await self._start(entry)
        except ApprovalError as refusal:
            await self.refuse(entry.place, refusal.message)
            return Answered(f"denied: {refusal.message}", is_error=True, code=refusal.code)
        if not is_ours:
            settled = await self.ledger.call(self.conversation, entry.place)
            return (settled.outcome if settled else None) or _OTHERS
        outcome = await effect()
        await self.ledger.finish(self.conversation, entry.place, self.epoch, outcome, now=self.clock())
        return outcome

    async def refuse(self, place: str, why: str, /) -> None:
        known = await self.ledger.call(self.conversation, place)
        if known is not None and known.state in _UNSTARTED:
            await self.ledger.refuse(self.conversation, place, self.epoch, why, now=self.clock())

    async def ask(self, entry: Entry, /) -> Leave:
        if await self.ledger.call(self.conversation, entry.place) is None:
            await self._propose(entry)
        asked = await self.ledger.approval_for(self.conversation, entry.place)
        now = self.clock()
        if asked is None or (asked.state is not ApprovalState.REDEEMED and _is_over(asked, now)):
            asked = await self.ledger.request_approval(
                self.conversation, entry.place, self.epoch, expires=now + self.leave_seconds, now=now
            )
        return Leave(asked.id, _decision_on(asked))

    async def decided(self, approval: str, decision: Decision, /) -> None:
        by, now = self.principal.name, self.clock()
        if not decision.is_allowed:
            await self.ledger.deny(approval, by, decision.why, now=now)
            return
        changed = None if decision.arguments is None else canonical_bytes(loads(decision.arguments))
        await self.ledger.approve(approval, by, changed, now=now)

    async def awaited(self, approval: str, /) -> Decision | None:
        until = self.clock() + self.patience
        while True:
            asked = await self.ledger.approval(approval)
            decision = _decision_on(asked) if asked else None
            if decision is not None or self.clock() >= until:
                return decision
            await asyncio.sleep(self.poll_seconds)

    async def _found(self, place: str) -> tuple[str, CallRecord | None]:
        """What is written of a call; of one that only reads and was lost, of its next attempt."""
        while True:
            known = await self.ledger.call(self.conversation, place)
            if known is None or known.state is not CallState.UNKNOWN or known.side_effects:
                return place, known
            place += _AGAIN

    async def _propose(self, entry: Entry) -> CallRecord:
        return await self.ledger.propose(
            self._claim(entry),
            self.epoch,
            side_effects=entry.tool.side_effects,
            needs_leave=entry.needs_leave,
            now=self.clock(),
        )

    async def _start(self, entry: Entry) -> bool:
        asked = await self.ledger.approval_for(self.conversation, entry.place) if entry.needs_leave else None
        approval = asked.id if asked else ""
        return await self.ledger.start(self._claim(entry), self.epoch, approval=approval, now=self.clock())

    def _claim(self, entry: Entry) -> Claim:
        return Claim.of(self.conversation, self.principal, replace(entry.call, id=entry.place), entry.tool)


def _is_over(asked: Approval, now: float) -> bool:
    is_open = asked.state in (ApprovalState.PENDING, ApprovalState.APPROVED)
    return asked.state is ApprovalState.REPLACED or (is_open and asked.expires_at <= now)


def _decision_on(asked: Approval) -> Decision | None:
    if asked.state not in _DECIDED:
        return None
    if asked.state is ApprovalState.DENIED:
        return Decision(False, asked.why)
    return Decision(True, arguments=dumps(loads(asked.arguments.decode())))
