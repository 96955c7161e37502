"""LedgerJournal: records the loop of one conversation in a ledger, for the process that owns the conversation.

A call is committed as started before its effect begins, and is found again by its place. After a crash the next owner
learns the outcome, or that it is unknown, and never starts the effect again. A call without side effects may be
started again.

Not everything is written at once. What only reads may be done again after a crash, so its records wait for the next
change that must not wait: the start of an effect, its outcome, a request for approval, the end of the turn, or five
seconds. All of it is then one step.

Calls of a round that start together are one step too, and so are outcomes that come while another step is written. None
of these effects begins before that step is durable.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

from ferrule.core.call import ToolCall
from ferrule.core.context import Principal, TaskRecord
from ferrule.core.json_text import dumps, loads
from ferrule.core.outcome import Answered, Outcome, Unknown
from ferrule.errors import ApprovalError, FencedError, LedgerError, LedgerUnavailableError
from ferrule.run.journal import ApprovalRequest, CallEntry, Decision, Effect, LoopState
from ferrule.run.ledger.calls import state_after
from ferrule.run.ledger.change import (
    Approve,
    AskApproval,
    Change,
    Deny,
    FinishCall,
    NoteTask,
    ProposeCall,
    RecordReply,
    RefuseCall,
    Release,
    SaveState,
    StartCall,
)
from ferrule.run.ledger.claim import Claim, canonical_bytes, new_approval_id
from ferrule.run.ledger.ledger import Approval, ApprovalState, CallRecord, CallState, Ledger
from ferrule.run.ledger.saved_state import StateUpdate
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
LONGEST_WAIT = 5.0
"""How many seconds a record waits at most."""


@dataclass(frozen=True, slots=True)
class PreparedSave:
    """What is to be saved of a conversation. `confirm` notes that it is."""

    update: StateUpdate
    confirm: Callable[[], None]


@dataclass(frozen=True, slots=True)
class _WriteRequest:
    """Changes that must not wait, and the future of their results."""

    changes: tuple[Change, ...]
    done: asyncio.Future[tuple[Any, ...]]

    def settle(self, results: tuple[Any, ...]) -> None:
        if not self.done.done():
            self.done.set_result(results)

    def fail(self, error: BaseException) -> None:
        if not self.done.done():
            self.done.set_exception(error if isinstance(error, Exception) else asyncio.CancelledError())
            # Retrieved: if nobody waits, what was not written still waits, and the next write meets the same failure.
            self.done.exception()


class _RefusedError(Exception):
    """The ledger has refused changes, and nothing was written."""

    def __init__(self, error: LedgerError) -> None:
        super().__init__()
        self.error = error


@dataclass(slots=True)
class LedgerJournal:
    """`prepare` returns what to save with a state of the loop, None after its end. A single call has no loop."""

    ledger: Ledger
    conversation: str
    principal: Principal
    epoch: int
    opens: Callable[[Sequence[Change]], Awaitable[tuple[Any, ...]]] | None = None
    """Makes changes instead of the ledger, in a new conversation that its first changes open."""
    prepare: Callable[[LoopState | None], PreparedSave] | None = None
    calls: dict[str, CallRecord] | None = None
    """The calls of this turn that are recorded, by their places; None if they have to be looked for."""
    is_begun: bool = False
    """Whether a state is saved from which the turn can be resumed. If not, the first one does not wait."""
    save_override: Callable[[StateUpdate], Awaitable[None]] | None = None
    """Saves each state, at once, together with whatever belongs to it."""
    approval_seconds: float = 24 * 3600.0
    """How long a requested approval can be given and used."""
    patience: float = 0.0
    """How many seconds to wait for a decision made elsewhere before the turn ends without it."""
    clock: Callable[[], float] = time.time
    poll_seconds: float = 0.2
    _waiting: list[Change] = field(default_factory=list[Change])
    """What is not written yet."""
    _state: LoopState | None = None
    """The state of the loop, if it is not written yet."""
    _is_in_doubt: bool = False
    """Whether the last write may have been made although it failed."""
    _requests: list[_WriteRequest] = field(default_factory=list["_WriteRequest"])
    _writer: asyncio.Task[None] | None = None
    """Writes the requests, as many together as there are, for as long as there are any."""
    _timer: asyncio.TimerHandle | None = None

    def idempotency_key(self, place: str, call: ToolCall) -> str:
        return f"{self.conversation}/{place}"

    async def save_state(self, state: LoopState, /) -> None:
        self._state = state
        if self.save_override is not None or not self.is_begun:
            await self.flush()
        else:
            self._write_later()

    async def flush(self) -> None:
        await self._apply()

    async def end(self, state: LoopState | None, *, releases: bool) -> None:
        """Write what waits, and the conversation as it is at the end of the turn. `releases` sets it free."""
        assert self.prepare is not None
        self._state = None
        save = self.prepare(state)
        if self.save_override is not None:
            await self.flush()
            await self.save_override(save.update)
        else:
            now = self.clock()
            changes: list[Change] = [SaveState(update=save.update, at=now), *([Release(at=now)] if releases else [])]
            await self._apply(*changes)
        save.confirm()

    async def record_reply(self, place: str, model: str, usage: ToolUsage | None, cost: ReplyCost, /) -> None:
        reply = ReplyRecord(self.conversation, place, model, usage, cost)
        self._waiting.append(RecordReply(reply=reply, at=self.clock()))

    async def find_outcome(self, place: str, /) -> Outcome | None:
        _, record = await self._find_call(place)
        if record is None or record.state in _UNSTARTED or record.task:
            return None
        return record.outcome or _OUTCOME_BY_STATE.get(record.state)

    async def run(self, entry: CallEntry, effect: Effect, /) -> Outcome:
        place, record = await self._find_call(entry.place)
        entry = replace(entry, place=place)
        if record is not None and record.task:
            return await self._finish(entry, effect, record.task)
        if record is not None and record.state not in _UNSTARTED:
            return record.outcome or _LOST_OUTCOME
        if record is not None:
            # An approver may have changed the arguments to some that need no approval: it was proposed with others.
            entry = replace(entry, needs_approval=record.needs_approval)
        elif self.calls is not None and not entry.needs_approval and not entry.tool.side_effects:
            return await self._read(entry, effect)
        try:
            is_ours = await self._start(entry, is_proposed=record is not None)
        except ApprovalError as refusal:
            await self.refuse(entry.place, refusal.message)
            return Answered(f"denied: {refusal.message}", is_error=True, code=refusal.code)
        if not is_ours:
            ended = await self.ledger.call(self.conversation, entry.place)
            return (ended.outcome if ended else None) or _LOST_OUTCOME
        return await self._finish(entry, effect)

    async def refuse(self, place: str, why: str, /) -> Outcome | None:
        record = await self._call(place)
        if record is not None and record.state in _UNSTARTED:
            (refused,) = await self._apply(RefuseCall(call_id=place, why=why, at=self.clock()))
            self._note(refused)
        elif record is not None and record.task:
            lost = Unknown(f"its task cannot be resumed: {why}", code="owner_lost")
            (ended,) = await self._apply(FinishCall(call_id=place, outcome=lost, at=self.clock()))
            self._note(ended)
            return lost
        return None

    async def request_approval(self, entry: CallEntry, /) -> ApprovalRequest:
        now = self.clock()
        record = await self._call(entry.place)
        approval = await self.ledger.approval_for(self.conversation, entry.place) if record is not None else None
        if approval is not None and not _must_ask_again(approval, now):
            return ApprovalRequest(approval.id, _decision_on(approval))
        seconds = self.approval_seconds if entry.terms.seconds is None else entry.terms.seconds
        id, claim = new_approval_id(), self._claim(entry)
        changes = [] if record is not None else [self._proposal(entry, claim, now)]
        ask = AskApproval(approval=id, call_id=entry.place, expires=now + seconds, terms=entry.terms, at=now)
        if self.calls is None or record is not None:
            await self._apply(*changes, ask)
            return ApprovalRequest(id)
        self._waiting += [*changes, ask]
        self.calls[entry.place] = self._record(entry, claim, CallState.AWAITING_APPROVAL)
        return ApprovalRequest(id)

    async def record_decision(self, approval: str, decision: Decision, /) -> None:
        by, now = self.principal.name, self.clock()
        arguments = None if decision.arguments is None else canonical_bytes(loads(decision.arguments))
        change: Change = (
            Approve(approval=approval, by=by, arguments=arguments, at=now)
            if decision.is_allowed
            else Deny(approval=approval, by=by, why=decision.why, at=now)
        )
        is_asked = any(isinstance(one, AskApproval) and one.approval == approval for one in self._waiting)
        if is_asked and decision.is_allowed:
            # Written with the request and the start of the call.
            self._waiting.append(change)
            return
        await self._apply(change)

    async def wait_for_decision(self, approval: str, /) -> Decision | None:
        await self.flush()
        until = self.clock() + self.patience
        while True:
            record = await self.ledger.approval(approval)
            decision = _decision_on(record) if record else None
            if decision is not None or self.clock() >= until:
                return decision
            await asyncio.sleep(self.poll_seconds)

    async def _finish(self, entry: CallEntry, effect: Effect, task: str = "") -> Outcome:
        """Run a started call, or resume its task, and record the outcome."""

        async def write(handle: str) -> None:
            (noted,) = await self._apply(NoteTask(call_id=entry.place, task=handle, at=self.clock()))
            self._note(noted)

        outcome = await effect(TaskRecord(task, write))
        (ended,) = await self._apply(FinishCall(call_id=entry.place, outcome=outcome, at=self.clock()))
        self._note(ended)
        return outcome

    async def _read(self, entry: CallEntry, effect: Effect) -> Outcome:
        """Run a call without side effects. If it is lost, it is run again: so its record may wait, but not its task."""
        assert self.calls is not None
        started, claim = self.clock(), self._claim(entry)
        begin: list[Change] = [self._proposal(entry, claim, started), StartCall(claim=claim, at=started)]

        async def write(handle: str) -> None:
            *_, noted = await self._apply(*begin, NoteTask(call_id=entry.place, task=handle, at=self.clock()))
            begin.clear()
            self._note(noted)

        outcome = await effect(TaskRecord(write=write))
        ended = self.clock()
        self._waiting += [
            *begin,
            FinishCall(call_id=entry.place, outcome=outcome, at=ended),
        ]
        self.calls[entry.place] = replace(self._record(entry, claim, state_after(outcome)), outcome=outcome)
        self._write_later()
        return outcome

    async def _find_call(self, place: str) -> tuple[str, CallRecord | None]:
        """Find the record of a call. If it has no side effects and its outcome was lost, find its next attempt."""
        while True:
            record = await self._call(place)
            if record is None or record.state is not CallState.UNKNOWN or record.side_effects:
                return place, record
            place += _RETRY_SUFFIX

    async def _call(self, place: str) -> CallRecord | None:
        return await self.ledger.call(self.conversation, place) if self.calls is None else self.calls.get(place)

    async def _start(self, entry: CallEntry, *, is_proposed: bool) -> bool:
        now, approval, claim = self.clock(), "", self._claim(entry)
        changes: list[Change] = [] if is_proposed else [self._proposal(entry, claim, now)]
        if entry.needs_approval:
            asked = [one for one in self._waiting if isinstance(one, AskApproval) and one.call_id == entry.place]
            record = None if asked else await self.ledger.approval_for(self.conversation, entry.place)
            approval = asked[0].approval if asked else record.id if record else ""
        *_, is_started = await self._apply(*changes, StartCall(claim=claim, approval=approval, at=now))
        if self.calls is not None:
            self.calls[entry.place] = self._record(entry, claim, CallState.STARTED)
        return is_started

    def _proposal(self, entry: CallEntry, claim: Claim, at: float) -> ProposeCall:
        return ProposeCall(
            claim=claim,
            side_effects=entry.tool.side_effects,
            needs_approval=entry.needs_approval,
            is_new=self.calls is not None,
            at=at,
        )

    def _record(self, entry: CallEntry, claim: Claim, state: CallState) -> CallRecord:
        return CallRecord(
            *(claim.conversation, claim.call_id, claim.tool, claim.tool_fingerprint),
            *(claim.arguments, claim.arguments_sha256, claim.binding),
            *(entry.tool.side_effects, entry.needs_approval, state, self.epoch, None),
        )

    def _note(self, record: CallRecord) -> None:
        if self.calls is not None:
            self.calls[record.id] = record

    def _claim(self, entry: CallEntry) -> Claim:
        return Claim.of(self.conversation, self.principal, replace(entry.call, id=entry.place), entry.tool)

    async def _apply(self, *changes: Change) -> tuple[Any, ...]:
        """Write changes, and everything that waits, in one step. Returns the results of these changes.

        A caller that is cancelled does not stop the write: nobody would know what was written.
        """
        return await self._request_write(changes)

    def _request_write(self, changes: tuple[Change, ...] = ()) -> asyncio.Future[tuple[Any, ...]]:
        done: asyncio.Future[tuple[Any, ...]] = asyncio.get_running_loop().create_future()
        self._requests.append(_WriteRequest(changes, done))
        if self._writer is None:
            # It begins after all that runs now, so that calls which are started together are one step.
            self._writer = asyncio.ensure_future(self._write_requests())
        return done

    async def _write_requests(self) -> None:
        try:
            while self._requests:
                requests, self._requests = self._requests, []
                await self._write_together(requests)
        finally:
            self._writer = None

    async def _write_together(self, requests: Sequence[_WriteRequest]) -> None:
        """Write requests in one step. If one of them is refused, each is written by itself."""
        try:
            results = await self._write([change for request in requests for change in request.changes])
        except _RefusedError as refusal:
            if len(requests) == 1:
                requests[0].fail(refusal.error)
                return
            for request in requests:
                await self._write_together([request])
        # Whatever it is belongs to those who wait for it; none of them may wait for ever.
        except BaseException as error:
            for request in requests:
                request.fail(error)
            if not isinstance(error, Exception):
                raise
        else:
            for request in requests:
                own, results = results[: len(request.changes)], results[len(request.changes) :]
                request.settle(own)

    async def _write(self, changes: Sequence[Change]) -> tuple[Any, ...]:
        self._stop_timer()
        if self._is_in_doubt:
            await self._forget_written()
        waiting, state, save = len(self._waiting), self._state, None
        every: list[Change] = [*self._waiting]
        if state is not None and self.prepare is not None:
            save = self.prepare(state)
            if self.save_override is None:
                every.append(SaveState(update=save.update, at=self.clock()))
        every += changes
        results: tuple[Any, ...] = ()
        try:
            if every:
                results = await self._apply_now(every)
            del self._waiting[:waiting]
            if save is not None and self.save_override is not None:
                await self.save_override(save.update)
        except LedgerUnavailableError:
            self._is_in_doubt = True
            raise
        if save is not None:
            save.confirm()
        if self._state is state:
            self._state = None
        self.is_begun = True
        return results[len(results) - len(changes) :]

    async def _apply_now(self, changes: Sequence[Change]) -> tuple[Any, ...]:
        try:
            if self.opens is not None:
                return await self.opens(changes)
            return await self.ledger.apply(self.conversation, self.epoch, changes)
        except (FencedError, LedgerUnavailableError):
            # These concern the whole conversation.
            raise
        except LedgerError as error:
            raise _RefusedError(error) from error

    async def _forget_written(self) -> None:
        """Drop what waits about calls that are recorded: it was written although nobody learned of it."""
        recorded = {call.id for call in await self.ledger.calls(self.conversation)}
        asked = {one.approval for one in self._waiting if isinstance(one, AskApproval) and one.call_id in recorded}
        self._waiting = [one for one in self._waiting if not _is_about(one, recorded, asked)]
        self._is_in_doubt = False

    def _write_later(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(LONGEST_WAIT, self._request_write)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _is_about(change: Change, calls: Set[str], approvals: Set[str]) -> bool:
    match change:
        case ProposeCall(claim=claim) | StartCall(claim=claim):
            return claim.call_id in calls
        case FinishCall(call_id=id) | RefuseCall(call_id=id) | AskApproval(call_id=id):
            return id in calls
        case Approve(approval=id) | Deny(approval=id):
            return id in approvals
        case _:
            return False


def _must_ask_again(approval: Approval, now: float) -> bool:
    if approval.state is ApprovalState.REDEEMED:
        return False
    is_open = approval.state in (ApprovalState.PENDING, ApprovalState.APPROVED)
    return approval.state is ApprovalState.REPLACED or (is_open and approval.expires_at <= now)


def _decision_on(approval: Approval) -> Decision | None:
    if approval.state not in _DECIDED:
        return None
    if approval.state is ApprovalState.DENIED:
        return Decision(False, approval.why)
    return Decision(True, arguments=dumps(loads(approval.arguments.decode())))
