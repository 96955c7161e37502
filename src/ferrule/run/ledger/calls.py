"""What can be done with a call, as work: propose, start, finish, refuse. Knows no database."""

from __future__ import annotations

from dataclasses import astuple

from ferrule.core.outcome import Answered, NotDelivered, Outcome, Unknown
from ferrule.errors import ApprovalError, FencedError, LedgerError
from ferrule.run.ledger.approvals import difference, redeemed
from ferrule.run.ledger.audit_chain import noted
from ferrule.run.ledger.claim import Claim, checked_arguments, checked_name, kept_json
from ferrule.run.ledger.ledger import CALL_TRANSITIONS, CallRecord, CallState, ConversationRecord
from ferrule.run.ledger.transaction import Work, call_of, known_call, owned, say
from ferrule.run.machine import outcome_as_dict


def proposed(claim: Claim, epoch: int, side_effects: bool, needs_leave: bool, now: float) -> Work[CallRecord]:
    checked_name(claim.call_id, "a call's id")
    checked_name(claim.tool, "a tool's name")
    checked_arguments(claim.arguments)
    held = yield from owned(claim.conversation, epoch)
    _require_same_principal(held, claim)
    fresh = CallRecord(
        *(claim.conversation, claim.call_id, claim.tool, claim.tool_fingerprint),
        *(claim.arguments, claim.arguments_sha256, claim.binding),
        *(side_effects, needs_leave, CallState.PROPOSED, 0, None),
    )
    values = (*astuple(fresh)[:7], int(side_effects), int(needs_leave), CallState.PROPOSED.value, 0, "null")
    if (yield from say("add_call", *values)).count:
        told = {"tool": claim.tool, "needs_leave": needs_leave, **_exactly(claim)}
        yield from noted(held, now, CallState.PROPOSED.value, told, call_id=claim.call_id)
        return fresh
    known = yield from known_call(claim.conversation, claim.call_id)
    if (known.binding, known.side_effects, known.needs_leave) != (claim.binding, side_effects, needs_leave):
        raise LedgerError(
            f"another call has the id {claim.call_id!r} in {claim.conversation!r}",
            code="call_id_taken",
            hint="Give every call of a conversation an id of its own.",
        )
    return known


def started(claim: Claim, epoch: int, approval: str, now: float) -> Work[bool]:
    held = yield from owned(claim.conversation, epoch)
    if held.lease_until <= now:
        # Another owner may take it over at any moment and call this effect unknown before it has begun.
        raise FencedError(
            f"the lease on {held.id!r} has run out", code="lease_over", hint="Renew it before starting anything."
        )
    call = yield from known_call(claim.conversation, claim.call_id)
    if approval:
        yield from redeemed(approval, claim, now)
    elif call.needs_leave:
        raise ApprovalError(f"the call {call.id!r} needs leave", code="approval_required")
    elif call.binding != claim.binding:
        why = difference(claim, call, held)
        raise LedgerError(f"the call {call.id!r} was proposed otherwise: {why}", code="call_changed")
    how = "start_approved" if approval else "start_proposed"
    moved = yield from say(how, epoch, claim.conversation, claim.call_id, claim.binding)
    if moved.count == 1:
        yield from noted(held, now, CallState.STARTED.value, _exactly(claim), call_id=call.id, approval=approval)
        return True
    if approval:
        # Raised, so that the approval is not used up.
        raise LedgerError(f"the call {call.id!r} is {call.state.value}, not approved", code="call_moved_on")
    return False


def finished(conversation: str, call_id: str, epoch: int, outcome: Outcome, now: float) -> Work[CallRecord]:
    text = kept_json(outcome_as_dict(outcome))
    held = yield from owned(conversation, epoch)
    call = yield from known_call(conversation, call_id)
    state = state_after(outcome)
    _require_step(call, state)
    yield from say("end_call", state.value, text, conversation, call_id, epoch)
    yield from noted(held, now, state.value, {"code": outcome.code}, call_id=call_id)
    return (yield from known_call(conversation, call_id))


def refused(conversation: str, call_id: str, epoch: int, why: str, now: float) -> Work[CallRecord]:
    held = yield from owned(conversation, epoch)
    call = yield from known_call(conversation, call_id)
    _require_step(call, CallState.REFUSED)
    yield from say("move_call", CallState.REFUSED.value, conversation, call_id, call.state.value)
    yield from noted(held, now, CallState.REFUSED.value, {"why": why}, call_id=call_id)
    return (yield from known_call(conversation, call_id))


def found_call(conversation: str, call_id: str) -> Work[CallRecord | None]:
    rows = (yield from say("call", conversation, call_id)).rows
    return call_of(rows[0]) if rows else None


def found_calls(conversation: str) -> Work[tuple[CallRecord, ...]]:
    return tuple(map(call_of, (yield from say("calls", conversation)).rows))


def state_after(outcome: Outcome) -> CallState:
    match outcome:
        case Answered(is_error=False):
            return CallState.DONE
        case Answered() | NotDelivered():
            return CallState.FAILED
        case Unknown():
            return CallState.UNKNOWN


def _exactly(claim: Claim) -> dict[str, object]:
    return {"arguments_sha256": claim.arguments_sha256, "binding": claim.binding}


def _require_step(call: CallRecord, to: CallState) -> None:
    if to not in CALL_TRANSITIONS[call.state]:
        raise LedgerError(f"the call {call.id!r} is {call.state.value} and cannot be {to.value}", code="call_moved_on")


def _require_same_principal(held: ConversationRecord, claim: Claim) -> None:
    if (held.tenant, held.principal) != (claim.tenant, claim.principal):
        raise LedgerError(f"the conversation {held.id!r} is another principal's", code="other_principal")
