"""The transitions of approvals: request, approve, deny, redeem. Independent of the database.

An approval is matched by its binding, one hash over everything that was approved. The other fields only serve to
explain a mismatch afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ferrule.errors import ApprovalError, LedgerError
from ferrule.run.ledger.approval_terms import ApprovalTerms, Vote
from ferrule.run.ledger.claim import Claim, require_canonical
from ferrule.run.ledger.continuations import request_continuation
from ferrule.run.ledger.ledger import Approval, ApprovalState, CallRecord, CallState, ConversationRecord
from ferrule.run.ledger.transaction import Transaction, approval_of, execute
from ferrule.run.ledger.transition import Transition
from ferrule.run.ledger.writes import Kind

VOTE = "vote"
"""The kind of the audit row for an approval that needs more of them."""
# A field in which a claim differs from the approval, in the order of checking: the error code and the reason.
_MISMATCHES = (
    ("conversation", "approval_other_conversation", "it was given in another conversation"),
    ("call_id", "approval_other_call", "it was given for another call"),
    ("tenant", "approval_other_principal", "it was given to another tenant's principal"),
    ("principal", "approval_other_principal", "it was given to another principal"),
    ("tool", "approval_tool_changed", "it was given for another tool"),
    ("tool_fingerprint", "approval_tool_changed", "the tool's definition has changed since"),
    ("arguments", "approval_arguments_changed", "it was given for other arguments"),
)
_ASKED = (CallState.AWAITING_APPROVAL, CallState.APPROVED)
_OPEN = (ApprovalState.PENDING, ApprovalState.APPROVED)
_UNUSABLE = {
    ApprovalState.PENDING: ("approval_pending", "nobody has decided on it yet"),
    ApprovalState.DENIED: ("approval_denied", "it was denied"),
    ApprovalState.REDEEMED: ("approval_used", "it was already used"),
    ApprovalState.REPLACED: ("approval_expired", "it expired and was requested again"),
}


def request_approval(
    transition: Transition, approval: str, call_id: str, expires: float, terms: ApprovalTerms
) -> Transaction[Approval]:
    record, now = transition.record, transition.now
    call = yield from transition.require_call(call_id)
    is_request_repeated = False
    if call.state in _ASKED:
        for earlier in (yield from _approvals_for(record.id, call_id)):
            if earlier.state in _OPEN and earlier.expires_at <= now:
                transition.change_approval(earlier, replace(earlier, state=ApprovalState.REPLACED))
                is_request_repeated = True
    if not call.needs_approval or not (call.state is CallState.PROPOSED or is_request_repeated):
        raise LedgerError(
            f"cannot request approval for {call_id!r}: the call is {call.state.value}", code="call_moved_on"
        )
    request = Approval(
        *(approval, record.id, call_id, record.tenant, record.principal, call.tool, call.tool_fingerprint),
        *(call.arguments, call.arguments_sha256, call.binding),
        *(ApprovalState.PENDING, now, float(expires), "", None, ""),
        *(terms.approvers, terms.four_eyes),
    )
    transition.add_approval(request)
    transition.change_call(call, replace(call, state=CallState.AWAITING_APPROVAL))
    detail: dict[str, object] = {"expires_at": request.expires_at, "binding": request.binding}
    if terms.approvers > 1 or terms.four_eyes:
        transition.write(Kind.TERMS, approval, terms.approvers, int(terms.four_eyes), 0)
        detail |= {"approvers": terms.approvers, "four_eyes": terms.four_eyes}
    transition.audit(CallState.AWAITING_APPROVAL.value, detail, call_id=call_id, approval=approval)
    return request


def approve(
    transition: Transition, approval: str, by: str, arguments: bytes | None, seen: str, terms: ApprovalTerms
) -> Transaction[Approval]:
    pending = yield from _require_pending(transition, approval)
    changes = 0 if transition.is_new_approval(approval) else (yield from _require_current(pending, seen))
    changed = pending
    if arguments is not None:
        claim = replace(claim_of(pending), arguments=require_canonical(arguments))
        changed = replace(
            pending,
            arguments=arguments,
            arguments_sha256=claim.arguments_sha256,
            binding=claim.binding,
            needed=max(pending.needed, terms.approvers),
            four_eyes=pending.four_eyes or terms.four_eyes,
        )
    if changed.four_eyes and by == changed.principal:
        raise ApprovalError(f"{by} asked for this call, and another person must approve it", code="approval_own_call")
    call = yield from _require_waiting(transition, pending)
    bound = replace(
        call, arguments=changed.arguments, arguments_sha256=changed.arguments_sha256, binding=changed.binding
    )
    shas = {"arguments_sha256": changed.arguments_sha256, "was_sha256": pending.arguments_sha256}
    if changed.needed > 1:
        changed = yield from _vote(transition, pending, changed, by, changes)
        if changed.votes < changed.needed:
            if bound != call:
                transition.change_call(call, bound)
            detail = {**shas, "votes": changed.votes, "needed": changed.needed}
            transition.audit(VOTE, detail, call_id=changed.call_id, approval=approval, by=by)
            return changed
    decided = replace(changed, state=ApprovalState.APPROVED, decided_by=by, decided_at=transition.now)
    _decide(
        transition,
        pending,
        decided,
        call,
        replace(bound, state=CallState.APPROVED),
        {**shas, "binding": decided.binding},
    )
    return decided


def find_votes(approval: str) -> Transaction[tuple[Vote, ...]]:
    return tuple(Vote(*row) for row in (yield from execute("votes", approval)).rows)


def deny(transition: Transition, approval: str, by: str, why: str) -> Transaction[Approval]:
    pending = yield from _require_pending(transition, approval)
    call = yield from _require_waiting(transition, pending)
    decided = replace(pending, state=ApprovalState.DENIED, decided_by=by, decided_at=transition.now, why=why)
    _decide(transition, pending, decided, call, replace(call, state=CallState.DENIED), {"why": why})
    return decided


def redeem(transition: Transition, approval: str, claim: Claim) -> Transaction[None]:
    """Use an approval up, in the step that starts the call."""
    record = yield from _require_approval(transition, approval)
    if record.binding != claim.binding or _unusable_error(record, transition.now) is not None:
        raise _refusal(claim, record, transition.now)
    transition.change_approval(record, replace(record, state=ApprovalState.REDEEMED))


def find_approval(approval: str) -> Transaction[Approval | None]:
    rows = (yield from execute("approval", approval)).rows
    return approval_of(rows[0]) if rows else None


def find_approval_for_call(conversation: str, call_id: str) -> Transaction[Approval | None]:
    rows = (yield from execute("approvals_for", conversation, call_id)).rows
    return approval_of(rows[-1]) if rows else None


def find_conversation_of(approval: str) -> Transaction[str]:
    """Return the conversation of an approval."""
    record = yield from find_approval(approval)
    if record is None:
        raise _unknown_error()
    return record.conversation


def claim_of(approval: Approval) -> Claim:
    """Return exactly what the approval is for."""
    whose = (approval.conversation, approval.call_id, approval.tenant, approval.principal)
    return Claim(*whose, approval.tool, approval.tool_fingerprint, approval.arguments)


def difference(claim: Claim, call: CallRecord, record: ConversationRecord) -> str:
    """Return the names of the fields in which a claim differs from the proposed call."""
    whose = (call.conversation, call.id, record.tenant, record.principal)
    proposed = Claim(*whose, call.tool, call.tool_fingerprint, call.arguments)
    different = [name for name, _, _ in _MISMATCHES if getattr(claim, name) != getattr(proposed, name)]
    return ", ".join(different) or "binding"


def _refusal(claim: Claim, approval: Approval, now: float) -> ApprovalError:
    approved_claim = claim_of(approval)
    for name, code, reason in _MISMATCHES:
        if getattr(claim, name) != getattr(approved_claim, name):
            return ApprovalError(f"the approval is not for this call: {reason}", code=code)
    return _unusable_error(approval, now) or ApprovalError(
        "the approval does not match its own fields: its row was changed", code="approval_damaged"
    )


def _unusable_error(approval: Approval, now: float) -> ApprovalError | None:
    if approval.state in _UNUSABLE:
        code, reason = _UNUSABLE[approval.state]
        return ApprovalError(f"the approval cannot be used: {reason}", code=code)
    if approval.expires_at <= now:
        return ApprovalError("the approval cannot be used: it has expired", code="approval_expired")
    return None


def _require_approval(transition: Transition, approval: str) -> Transaction[Approval]:
    record = yield from transition.approval(approval)
    if record is None:
        raise _unknown_error()
    return record


def _unknown_error() -> ApprovalError:
    return ApprovalError("there is no such approval", code="approval_unknown")


def _approvals_for(conversation: str, call_id: str) -> Transaction[list[Approval]]:
    return [approval_of(row) for row in (yield from execute("approvals_for", conversation, call_id)).rows]


def _require_pending(transition: Transition, approval: str) -> Transaction[Approval]:
    pending = yield from _require_approval(transition, approval)
    if pending.conversation != transition.record.id:
        raise ApprovalError("there is no such approval in this conversation", code="approval_unknown")
    if pending.state is not ApprovalState.PENDING:
        raise ApprovalError(f"the approval was already decided: it is {pending.state.value}", code="approval_decided")
    if pending.expires_at <= transition.now:
        raise ApprovalError("the approval can no longer be decided: it has expired", code="approval_expired")
    return pending


def _require_waiting(transition: Transition, approval: Approval) -> Transaction[CallRecord]:
    call = yield from transition.require_call(approval.call_id)
    if call.state is not CallState.AWAITING_APPROVAL:
        raise ApprovalError(f"the call {call.id!r} is no longer waiting for approval", code="call_moved_on")
    return call


def _require_current(pending: Approval, seen: str) -> Transaction[int]:
    """Return how often the arguments were changed. Raises if the person has not seen them as they are now."""
    rows = (yield from execute("terms", pending.id)).rows
    changes: int = rows[0][2] if rows else 0
    if seen != pending.arguments_sha256 and (seen or changes):
        raise ApprovalError(
            "the arguments are not the ones that you saw: another approver has changed them",
            code="approval_arguments_changed",
        )
    return changes


def _vote(transition: Transition, pending: Approval, changed: Approval, by: str, changes: int) -> Transaction[Approval]:
    """Count one person's approval of the arguments as they are in `changed`."""
    is_changed = changed.binding != pending.binding
    votes = (yield from execute("votes_for", changed.id, changed.binding)).rows
    if any(voter == by for voter, _ in votes):
        raise ApprovalError(f"{by} has approved it already; another person must approve it too", code="approval_voted")
    if is_changed:
        transition.change_approval(pending, changed)
    transition.write(Kind.TERMS, changed.id, changed.needed, int(changed.four_eyes), changes + is_changed)
    transition.write(Kind.VOTE, changed.id, by, changed.binding, transition.now)
    return replace(changed, votes=len(votes) + 1)


def _decide(
    transition: Transition,
    pending: Approval,
    decided: Approval,
    call: CallRecord,
    moved: CallRecord,
    detail: Mapping[str, object],
) -> None:
    transition.change_approval(pending, decided)
    transition.change_call(call, moved)
    transition.audit(moved.state.value, detail, call_id=call.id, approval=decided.id, by=decided.decided_by)
    request_continuation(transition)
