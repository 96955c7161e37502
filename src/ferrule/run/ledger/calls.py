"""The transitions of calls: propose, start, finish, refuse. Independent of the database."""

from __future__ import annotations

from dataclasses import replace

from ferrule.core.outcome import Answered, NotDelivered, Outcome, Unknown
from ferrule.errors import ApprovalError, FencedError, LedgerError
from ferrule.run.ledger.approvals import difference, redeem
from ferrule.run.ledger.claim import Claim, require_canonical, require_name, sha256
from ferrule.run.ledger.ledger import CALL_TRANSITIONS, CallRecord, CallState, ConversationRecord
from ferrule.run.ledger.transaction import Transaction, call_of, execute
from ferrule.run.ledger.transition import Transition


def propose(
    transition: Transition, claim: Claim, side_effects: bool, needs_approval: bool, *, is_new: bool = False
) -> Transaction[CallRecord]:
    """Record a call. `is_new` says that there is none in its place, so it need not be looked for."""
    require_name(claim.call_id, "a call's id")
    require_name(claim.tool, "a tool's name")
    if not claim.is_canonical:
        require_canonical(claim.arguments)
    _require_same_principal(transition.record, claim)
    existing = None if is_new else (yield from transition.call(claim.call_id))
    if existing is None:
        fresh = CallRecord(
            *(claim.conversation, claim.call_id, claim.tool, claim.tool_fingerprint),
            *(claim.arguments, claim.arguments_sha256, claim.binding),
            *(side_effects, needs_approval, CallState.PROPOSED, 0, None),
        )
        transition.add_call(fresh)
        detail = {"tool": claim.tool, "needs_approval": needs_approval, **_hashes(claim)}
        transition.audit(CallState.PROPOSED.value, detail, call_id=claim.call_id)
        return fresh
    if (existing.binding, existing.side_effects, existing.needs_approval) != (
        claim.binding,
        side_effects,
        needs_approval,
    ):
        raise LedgerError(
            f"the id {claim.call_id!r} is already used by another call in {claim.conversation!r}",
            code="call_id_taken",
            hint="Use a different id for every call of a conversation.",
        )
    return existing


def start(transition: Transition, claim: Claim, approval: str) -> Transaction[bool]:
    record = transition.record
    if record.held_until <= transition.now:
        # Another owner may take over at any moment and mark this effect as unknown before it has started.
        raise FencedError(
            f"the lease on {record.id!r} has expired", code="lease_over", hint="Renew it before you start a call."
        )
    call = yield from transition.require_call(claim.call_id)
    if approval:
        yield from redeem(transition, approval, claim)
    elif call.needs_approval:
        raise ApprovalError(f"the call {call.id!r} needs approval", code="approval_required")
    elif call.binding != claim.binding:
        why = difference(claim, call, record)
        raise LedgerError(f"the call {call.id!r} differs from the proposed one: {why}", code="call_changed")
    expected = CallState.APPROVED if approval else CallState.PROPOSED
    if call.state is not expected or call.binding != claim.binding:
        if approval:
            # An error undoes the transition, so the approval is not used up.
            raise LedgerError(f"the call {call.id!r} is {call.state.value}, not approved", code="call_moved_on")
        return False
    transition.change_call(call, replace(call, state=CallState.STARTED, epoch=record.epoch))
    transition.audit(CallState.STARTED.value, _hashes(claim), call_id=call.id, approval=approval)
    return True


def note_task(transition: Transition, call_id: str, task: str) -> Transaction[CallRecord]:
    call = yield from transition.require_call(call_id)
    _require_own(transition, call)
    noted = replace(call, task=task)
    transition.change_call(call, noted)
    transition.audit("task", {"task_sha256": sha256(task.encode())}, call_id=call_id)
    return noted


def finish(transition: Transition, call_id: str, outcome: Outcome) -> Transaction[CallRecord]:
    call = yield from transition.require_call(call_id)
    state = state_after(outcome)
    _require_step(call, state)
    _require_own(transition, call)
    ended = replace(call, state=state, outcome=outcome, task="")
    transition.change_call(call, ended)
    transition.audit(state.value, {"code": outcome.code}, call_id=call_id)
    return ended


def refuse(transition: Transition, call_id: str, why: str) -> Transaction[CallRecord]:
    call = yield from transition.require_call(call_id)
    _require_step(call, CallState.REFUSED)
    refused = replace(call, state=CallState.REFUSED)
    transition.change_call(call, refused)
    transition.audit(CallState.REFUSED.value, {"why": why}, call_id=call_id)
    return refused


def find_call(conversation: str, call_id: str) -> Transaction[CallRecord | None]:
    rows = (yield from execute("call", conversation, call_id)).rows
    return call_of(rows[0]) if rows else None


def find_calls(conversation: str) -> Transaction[tuple[CallRecord, ...]]:
    return tuple(map(call_of, (yield from execute("calls", conversation)).rows))


def state_after(outcome: Outcome) -> CallState:
    match outcome:
        case Answered(is_error=False):
            return CallState.DONE
        case Answered() | NotDelivered():
            return CallState.FAILED
        case Unknown():
            return CallState.UNKNOWN


def _hashes(claim: Claim) -> dict[str, object]:
    return {"arguments_sha256": claim.arguments_sha256, "binding": claim.binding}


def _require_step(call: CallRecord, to: CallState) -> None:
    if to not in CALL_TRANSITIONS[call.state]:
        raise LedgerError(f"the call {call.id!r} is {call.state.value} and cannot be {to.value}", code="call_moved_on")


def _require_own(transition: Transition, call: CallRecord) -> None:
    if call.state is not CallState.STARTED:
        raise LedgerError(f"the call {call.id!r} is {call.state.value}, not started", code="call_moved_on")
    if call.epoch != transition.record.epoch:
        raise LedgerError(f"the call {call.id!r} was started by another owner", code="call_moved_on")


def _require_same_principal(record: ConversationRecord, claim: Claim) -> None:
    if (record.tenant, record.principal) != (claim.tenant, claim.principal):
        raise LedgerError(f"the conversation {record.id!r} belongs to another principal", code="other_principal")
