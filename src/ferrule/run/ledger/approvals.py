"""What can be done with an approval, as work: request, approve, deny, redeem. Knows no database.

The binding, one hash over everything that the leave was given for, decides. The fields beside it only say afterwards
what was different.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, replace

from ferrule.errors import ApprovalError, LedgerError
from ferrule.run.ledger.audit_chain import noted
from ferrule.run.ledger.claim import Claim, checked_arguments, checked_name, kept_json
from ferrule.run.ledger.ledger import Approval, ApprovalState, CallRecord, CallState, ConversationRecord
from ferrule.run.ledger.transaction import Work, approval_of, known_call, locked, owned, say

# A field of the claim that is not the approval's, in the order in which they are looked at: its code, and words.
_OTHER = (
    ("conversation", "approval_other_conversation", "it was given in another conversation"),
    ("call_id", "approval_other_call", "it was given for another call"),
    ("tenant", "approval_other_principal", "it was given to another tenant's principal"),
    ("principal", "approval_other_principal", "it was given to another principal"),
    ("tool", "approval_tool_changed", "it was given for another tool"),
    ("tool_fingerprint", "approval_tool_changed", "the tool's definition has changed since"),
    ("arguments", "approval_arguments_changed", "it was given for other arguments"),
)
_NOT_APPROVED = {
    ApprovalState.PENDING: ("approval_pending", "nobody has decided on it"),
    ApprovalState.DENIED: ("approval_denied", "it was denied"),
    ApprovalState.REDEEMED: ("approval_used", "it was used before"),
    ApprovalState.REPLACED: ("approval_expired", "it ran out and was asked for anew"),
}


def requested(approval: str, conversation: str, call_id: str, epoch: int, expires: float, now: float) -> Work[Approval]:
    held = yield from owned(conversation, epoch)
    call = yield from known_call(conversation, call_id)
    replaced = yield from say("replace_approvals", conversation, call_id, float(now))
    is_asked_anew = call.state in (CallState.AWAITING_APPROVAL, CallState.APPROVED) and replaced.count
    if not call.needs_leave or not (call.state is CallState.PROPOSED or is_asked_anew):
        raise LedgerError(f"leave for {call_id!r} cannot be asked for: it is {call.state.value}", code="call_moved_on")
    wanted = Approval(
        *(approval, conversation, call_id, held.tenant, held.principal, call.tool, call.tool_fingerprint),
        *(call.arguments, call.arguments_sha256, call.binding),
        *(ApprovalState.PENDING, float(now), float(expires), "", None, ""),
    )
    yield from say("add_approval", *_kept(wanted))
    yield from say("move_call", CallState.AWAITING_APPROVAL.value, conversation, call_id, call.state.value)
    told = {"expires_at": wanted.expires_at, "binding": wanted.binding}
    yield from noted(held, now, CallState.AWAITING_APPROVAL.value, told, call_id=call_id, approval=approval)
    return wanted


def approved(approval: str, by: str, arguments: bytes | None, now: float) -> Work[Approval]:
    checked_name(by, "a person's name")
    asked, held = yield from _pending(approval, now)
    given = replace(asked, state=ApprovalState.APPROVED, decided_by=by, decided_at=float(now))
    if arguments is not None:
        claim = replace(claim_of(asked), arguments=checked_arguments(arguments))
        given = replace(given, arguments=arguments, arguments_sha256=claim.arguments_sha256, binding=claim.binding)
        values = (given.arguments, given.arguments_sha256, given.binding)
        yield from say("set_arguments", *values, given.conversation, given.call_id)
    yield from _decided(given, now)
    shas = {"arguments_sha256": given.arguments_sha256, "was_sha256": asked.arguments_sha256}
    yield from _moved(held, given, CallState.APPROVED, now, {**shas, "binding": given.binding})
    return given


def denied(approval: str, by: str, why: str, now: float) -> Work[Approval]:
    checked_name(by, "a person's name")
    asked, held = yield from _pending(approval, now)
    given = replace(asked, state=ApprovalState.DENIED, decided_by=by, decided_at=float(now), why=why)
    yield from _decided(given, now)
    yield from _moved(held, given, CallState.DENIED, now, {"why": why})
    return given


def redeemed(approval: str, claim: Claim, now: float) -> Work[None]:
    """Use it up. Only inside the transaction that starts the call."""
    used = yield from say("redeem", approval, claim.binding, float(now))
    if used.count != 1:
        raise _refusal(claim, (yield from _known(approval)), now)


def found_approval(approval: str) -> Work[Approval | None]:
    rows = (yield from say("approval", approval)).rows
    return approval_of(rows[0]) if rows else None


def found_approval_for(conversation: str, call_id: str) -> Work[Approval | None]:
    rows = (yield from say("approvals_for", conversation, call_id)).rows
    return approval_of(rows[-1]) if rows else None


def found_approvals(state: ApprovalState | None) -> Work[tuple[Approval, ...]]:
    answer = yield from (say("approvals") if state is None else say("approvals_in", state.value))
    return tuple(map(approval_of, answer.rows))


def claim_of(approval: Approval) -> Claim:
    """What the leave is for."""
    whose = (approval.conversation, approval.call_id, approval.tenant, approval.principal)
    return Claim(*whose, approval.tool, approval.tool_fingerprint, approval.arguments)


def difference(claim: Claim, call: CallRecord, held: ConversationRecord) -> str:
    """In which field a claim is not the call that was proposed."""
    whose = (call.conversation, call.id, held.tenant, held.principal)
    meant = Claim(*whose, call.tool, call.tool_fingerprint, call.arguments)
    other = [name for name, _, _ in _OTHER if getattr(claim, name) != getattr(meant, name)]
    return ", ".join(other) or "binding"


def _refusal(claim: Claim, known: Approval, now: float) -> ApprovalError:
    meant = claim_of(known)
    for name, code, words in _OTHER:
        if getattr(claim, name) != getattr(meant, name):
            return ApprovalError(f"this leave is not for this call: {words}", code=code)
    return _why_not(known, now) or ApprovalError(
        "this leave does not fit its own fields: the row was changed", code="approval_damaged"
    )


def _why_not(known: Approval, now: float) -> ApprovalError | None:
    if known.state in _NOT_APPROVED:
        code, words = _NOT_APPROVED[known.state]
        return ApprovalError(f"this leave cannot be used: {words}", code=code)
    if known.expires_at <= now:
        return ApprovalError("this leave cannot be used: it has run out", code="approval_expired")
    return None


def _known(approval: str) -> Work[Approval]:
    known = yield from found_approval(approval)
    if known is None:
        raise ApprovalError("there is no such approval", code="approval_unknown")
    return known


def _pending(approval: str, now: float) -> Work[tuple[Approval, ConversationRecord]]:
    """One that can be decided on, with its conversation locked: first read for the conversation, then for good."""
    first = yield from _known(approval)
    held = yield from locked(first.conversation)
    known = yield from _known(approval)
    if known.state is not ApprovalState.PENDING:
        raise ApprovalError(f"this was decided before: it is {known.state.value}", code="approval_decided")
    if known.expires_at <= now:
        raise ApprovalError("this can be decided on no longer: it has run out", code="approval_expired")
    return known, held


def _decided(given: Approval, now: float) -> Work[None]:
    values = (given.state.value, given.decided_by, given.decided_at, kept_json(given.why))
    bound = (given.arguments, given.arguments_sha256, given.binding)
    if (yield from say("decide", *values, *bound, given.id, float(now))).count != 1:
        raise ApprovalError("this was decided meanwhile", code="approval_decided")


def _moved(
    held: ConversationRecord, given: Approval, state: CallState, now: float, told: Mapping[str, object]
) -> Work[None]:
    before = CallState.AWAITING_APPROVAL.value
    moved = yield from say("move_call", state.value, given.conversation, given.call_id, before)
    if moved.count != 1:
        raise ApprovalError(f"the call {given.call_id!r} waits for leave no longer", code="call_moved_on")
    yield from noted(held, now, state.value, told, call_id=given.call_id, approval=given.id, by=given.decided_by)


def _kept(wanted: Approval) -> tuple[object, ...]:
    values = astuple(wanted)
    return (*values[:10], wanted.state.value, *values[11:15], kept_json(wanted.why))
