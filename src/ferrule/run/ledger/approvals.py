"""The transactions on approvals: request, approve, deny, redeem. Independent of the database.

An approval is matched by its binding, one hash over everything that was approved. The other fields only serve to
explain a mismatch afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, replace

from ferrule.errors import ApprovalError, LedgerError
from ferrule.run.ledger.approval_terms import ApprovalTerms, Vote
from ferrule.run.ledger.audit_chain import append_audit
from ferrule.run.ledger.claim import Claim, encode_json, require_canonical, require_name
from ferrule.run.ledger.continuations import request_continuation
from ferrule.run.ledger.ledger import Approval, ApprovalState, CallRecord, CallState, ConversationRecord
from ferrule.run.ledger.transaction import Transaction, approval_of, execute, lock, lock_owned, require_call

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
_UNUSABLE = {
    ApprovalState.PENDING: ("approval_pending", "nobody has decided on it yet"),
    ApprovalState.DENIED: ("approval_denied", "it was denied"),
    ApprovalState.REDEEMED: ("approval_used", "it was already used"),
    ApprovalState.REPLACED: ("approval_expired", "it expired and was requested again"),
}


def request_approval(
    approval: str, conversation: str, call_id: str, epoch: int, expires: float, terms: ApprovalTerms, now: float
) -> Transaction[Approval]:
    record = yield from lock_owned(conversation, epoch)
    call = yield from require_call(conversation, call_id)
    expired = yield from execute("replace_approvals", conversation, call_id, float(now))
    is_request_repeated = call.state in (CallState.AWAITING_APPROVAL, CallState.APPROVED) and expired.count
    if not call.needs_approval or not (call.state is CallState.PROPOSED or is_request_repeated):
        raise LedgerError(
            f"cannot request approval for {call_id!r}: the call is {call.state.value}", code="call_moved_on"
        )
    request = Approval(
        *(approval, conversation, call_id, record.tenant, record.principal, call.tool, call.tool_fingerprint),
        *(call.arguments, call.arguments_sha256, call.binding),
        *(ApprovalState.PENDING, float(now), float(expires), "", None, ""),
        *(terms.approvers, terms.four_eyes),
    )
    yield from execute("add_approval", *_row(request))
    yield from execute("move_call", CallState.AWAITING_APPROVAL.value, conversation, call_id, call.state.value)
    detail: dict[str, object] = {"expires_at": request.expires_at, "binding": request.binding}
    if terms.approvers > 1 or terms.four_eyes:
        yield from execute("set_terms", approval, terms.approvers, int(terms.four_eyes), 0)
        detail |= {"approvers": terms.approvers, "four_eyes": terms.four_eyes}
    yield from append_audit(record, now, CallState.AWAITING_APPROVAL.value, detail, call_id=call_id, approval=approval)
    return request


def approve(
    approval: str, by: str, arguments: bytes | None, seen: str, terms: ApprovalTerms, now: float
) -> Transaction[Approval]:
    require_name(by, "a person's name")
    pending, record = yield from _lock_pending(approval, now)
    changes = yield from _require_current(pending, seen)
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
        values = (changed.arguments, changed.arguments_sha256, changed.binding)
        yield from execute("set_arguments", *values, changed.conversation, changed.call_id)
    if changed.four_eyes and by == changed.principal:
        raise ApprovalError(f"{by} asked for this call, and another person must approve it", code="approval_own_call")
    shas = {"arguments_sha256": changed.arguments_sha256, "was_sha256": pending.arguments_sha256}
    if changed.needed > 1:
        changed = yield from _vote(pending, changed, by, changes, now)
        if changed.votes < changed.needed:
            detail = {**shas, "votes": changed.votes, "needed": changed.needed}
            yield from append_audit(record, now, VOTE, detail, call_id=changed.call_id, approval=approval, by=by)
            return changed
    decided = replace(changed, state=ApprovalState.APPROVED, decided_by=by, decided_at=float(now))
    yield from _store_decision(decided, now)
    yield from _move_call(record, decided, CallState.APPROVED, now, {**shas, "binding": decided.binding})
    return decided


def find_votes(approval: str) -> Transaction[tuple[Vote, ...]]:
    return tuple(Vote(*row) for row in (yield from execute("votes", approval)).rows)


def deny(approval: str, by: str, why: str, now: float) -> Transaction[Approval]:
    require_name(by, "a person's name")
    pending, record = yield from _lock_pending(approval, now)
    decided = replace(pending, state=ApprovalState.DENIED, decided_by=by, decided_at=float(now), why=why)
    yield from _store_decision(decided, now)
    yield from _move_call(record, decided, CallState.DENIED, now, {"why": why})
    return decided


def redeem(approval: str, claim: Claim, now: float) -> Transaction[None]:
    """Use an approval up. Call this only inside the transaction that starts the call."""
    update = yield from execute("redeem", approval, claim.binding, float(now))
    if update.count != 1:
        raise _refusal(claim, (yield from _require_approval(approval)), now)


def find_approval(approval: str) -> Transaction[Approval | None]:
    rows = (yield from execute("approval", approval)).rows
    return approval_of(rows[0]) if rows else None


def find_approval_for_call(conversation: str, call_id: str) -> Transaction[Approval | None]:
    rows = (yield from execute("approvals_for", conversation, call_id)).rows
    return approval_of(rows[-1]) if rows else None


def find_approvals(state: ApprovalState | None) -> Transaction[tuple[Approval, ...]]:
    result = yield from (execute("approvals") if state is None else execute("approvals_in", state.value))
    return tuple(map(approval_of, result.rows))


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


def _require_approval(approval: str) -> Transaction[Approval]:
    record = yield from find_approval(approval)
    if record is None:
        raise ApprovalError("there is no such approval", code="approval_unknown")
    return record


def _lock_pending(approval: str, now: float) -> Transaction[tuple[Approval, ConversationRecord]]:
    """Lock the conversation of a pending approval and return both.

    It is read twice: once to find the conversation, and again after that is locked.
    """
    first = yield from _require_approval(approval)
    record = yield from lock(first.conversation)
    pending = yield from _require_approval(approval)
    if pending.state is not ApprovalState.PENDING:
        raise ApprovalError(f"the approval was already decided: it is {pending.state.value}", code="approval_decided")
    if pending.expires_at <= now:
        raise ApprovalError("the approval can no longer be decided: it has expired", code="approval_expired")
    return pending, record


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


def _vote(pending: Approval, changed: Approval, by: str, changes: int, now: float) -> Transaction[Approval]:
    """Count one person's approval of the arguments as they are in `changed`."""
    is_changed = changed.binding != pending.binding
    if is_changed:
        values = (changed.arguments, changed.arguments_sha256, changed.binding)
        if (yield from execute("change_approval", *values, changed.id, float(now))).count != 1:
            raise ApprovalError("the approval was decided in the meantime", code="approval_decided")
    yield from execute("set_terms", changed.id, changed.needed, int(changed.four_eyes), changes + is_changed)
    if not (yield from execute("add_vote", changed.id, by, changed.binding, float(now))).count:
        raise ApprovalError(f"{by} has approved it already; another person must approve it too", code="approval_voted")
    return replace(changed, votes=len((yield from find_votes(changed.id))))


def _store_decision(decided: Approval, now: float) -> Transaction[None]:
    values = (decided.state.value, decided.decided_by, decided.decided_at, encode_json(decided.why))
    bound = (decided.arguments, decided.arguments_sha256, decided.binding)
    if (yield from execute("decide", *values, *bound, decided.id, float(now))).count != 1:
        raise ApprovalError("the approval was decided in the meantime", code="approval_decided")


def _move_call(
    record: ConversationRecord, decided: Approval, state: CallState, now: float, detail: Mapping[str, object]
) -> Transaction[None]:
    before = CallState.AWAITING_APPROVAL.value
    update = yield from execute("move_call", state.value, decided.conversation, decided.call_id, before)
    if update.count != 1:
        raise ApprovalError(f"the call {decided.call_id!r} is no longer waiting for approval", code="call_moved_on")
    yield from append_audit(
        record, now, state.value, detail, call_id=decided.call_id, approval=decided.id, by=decided.decided_by
    )
    yield from request_continuation(record.id, record.tenant, record.principal, now)


def _row(approval: Approval) -> tuple[object, ...]:
    values = astuple(approval)
    return (*values[:10], approval.state.value, *values[11:15], encode_json(approval.why))
