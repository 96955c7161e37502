"""The transactions on calls: propose, start, finish, refuse. Independent of the database."""

from __future__ import annotations

from dataclasses import astuple

from ferrule.core.outcome import Answered, NotDelivered, Outcome, Unknown
from ferrule.errors import ApprovalError, FencedError, LedgerError
from ferrule.run.ledger.approvals import difference, redeem
from ferrule.run.ledger.audit_chain import append_audit
from ferrule.run.ledger.claim import Claim, encode_json, require_canonical, require_name
from ferrule.run.ledger.ledger import CALL_TRANSITIONS, CallRecord, CallState, ConversationRecord
from ferrule.run.ledger.transaction import Transaction, call_of, execute, lock_owned, require_call
from ferrule.run.machine import outcome_as_dict


def propose(claim: Claim, epoch: int, side_effects: bool, needs_approval: bool, now: float) -> Transaction[CallRecord]:
    require_name(claim.call_id, "a call's id")
    require_name(claim.tool, "a tool's name")
    require_canonical(claim.arguments)
    record = yield from lock_owned(claim.conversation, epoch)
    _require_same_principal(record, claim)
    fresh = CallRecord(
        *(claim.conversation, claim.call_id, claim.tool, claim.tool_fingerprint),
        *(claim.arguments, claim.arguments_sha256, claim.binding),
        *(side_effects, needs_approval, CallState.PROPOSED, 0, None),
    )
    values = (*astuple(fresh)[:7], int(side_effects), int(needs_approval), CallState.PROPOSED.value, 0, "null")
    if (yield from execute("add_call", *values)).count:
        detail = {"tool": claim.tool, "needs_approval": needs_approval, **_hashes(claim)}
        yield from append_audit(record, now, CallState.PROPOSED.value, detail, call_id=claim.call_id)
        return fresh
    existing = yield from require_call(claim.conversation, claim.call_id)
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


def start(claim: Claim, epoch: int, approval: str, now: float) -> Transaction[bool]:
    record = yield from lock_owned(claim.conversation, epoch)
    if record.lease_until <= now:
        # Another owner may take over at any moment and mark this effect as unknown before it has started.
        raise FencedError(
            f"the lease on {record.id!r} has expired", code="lease_over", hint="Renew it before you start a call."
        )
    call = yield from require_call(claim.conversation, claim.call_id)
    if approval:
        yield from redeem(approval, claim, now)
    elif call.needs_approval:
        raise ApprovalError(f"the call {call.id!r} needs approval", code="approval_required")
    elif call.binding != claim.binding:
        why = difference(claim, call, record)
        raise LedgerError(f"the call {call.id!r} differs from the proposed one: {why}", code="call_changed")
    how = "start_approved" if approval else "start_proposed"
    update = yield from execute(how, epoch, claim.conversation, claim.call_id, claim.binding)
    if update.count == 1:
        yield from append_audit(
            record, now, CallState.STARTED.value, _hashes(claim), call_id=call.id, approval=approval
        )
        return True
    if approval:
        # An error rolls the transaction back, so the approval is not used up.
        raise LedgerError(f"the call {call.id!r} is {call.state.value}, not approved", code="call_moved_on")
    return False


def finish(conversation: str, call_id: str, epoch: int, outcome: Outcome, now: float) -> Transaction[CallRecord]:
    text = encode_json(outcome_as_dict(outcome))
    record = yield from lock_owned(conversation, epoch)
    call = yield from require_call(conversation, call_id)
    state = state_after(outcome)
    _require_step(call, state)
    yield from execute("end_call", state.value, text, conversation, call_id, epoch)
    yield from append_audit(record, now, state.value, {"code": outcome.code}, call_id=call_id)
    return (yield from require_call(conversation, call_id))


def refuse(conversation: str, call_id: str, epoch: int, why: str, now: float) -> Transaction[CallRecord]:
    record = yield from lock_owned(conversation, epoch)
    call = yield from require_call(conversation, call_id)
    _require_step(call, CallState.REFUSED)
    yield from execute("move_call", CallState.REFUSED.value, conversation, call_id, call.state.value)
    yield from append_audit(record, now, CallState.REFUSED.value, {"why": why}, call_id=call_id)
    return (yield from require_call(conversation, call_id))


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


def _require_same_principal(record: ConversationRecord, claim: Claim) -> None:
    if (record.tenant, record.principal) != (claim.tenant, claim.principal):
        raise LedgerError(f"the conversation {record.id!r} belongs to another principal", code="other_principal")
