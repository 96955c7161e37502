"""The transactions on conversations: open, renew, save, take over. Independent of the database."""

from __future__ import annotations

from ferrule.core.context import Principal
from ferrule.core.outcome import Unknown
from ferrule.errors import FencedError, LedgerError
from ferrule.run.ledger.audit_chain import GENESIS, append_audit
from ferrule.run.ledger.claim import encode_json, require_name, sha256
from ferrule.run.ledger.ledger import CallState, ConversationRecord
from ferrule.run.ledger.transaction import Transaction, execute, lock, lock_owned, require_call
from ferrule.run.machine import outcome_as_dict

_LOST_OUTCOME = Unknown("its owner stopped before the outcome was recorded", code="owner_lost")


def open_conversation(
    conversation: str, principal: Principal, owner: str, lease: float, now: float
) -> Transaction[ConversationRecord]:
    names = {"a conversation's id": conversation, "a tenant": principal.tenant, "a principal": principal.name}
    for what, name in {**names, "an owner": owner}.items():
        require_name(name, what)
    until = float(now + lease)
    fresh = ConversationRecord(conversation, principal.tenant, principal.name, owner, 1, until, 0, "null")
    values = (conversation, principal.tenant, principal.name, owner, 1, until, 0, "null", 0, GENESIS)
    if (yield from execute("add_conversation", *values)).count:
        yield from append_audit(fresh, now, "opened", {"lease_until": until})
        return fresh
    record = yield from lock(conversation)
    if (record.tenant, record.principal) != (principal.tenant, principal.name):
        # The message does not say whose it is.
        raise LedgerError(f"the id {conversation!r} is taken", code="conversation_taken", hint="Use random ids.")
    return (yield from _hand_over(record, owner, lease, now))


def take_over(conversation: str, owner: str, lease: float, now: float) -> Transaction[ConversationRecord]:
    require_name(owner, "an owner")
    record = yield from lock(conversation)
    return (yield from _hand_over(record, owner, lease, now))


def _hand_over(record: ConversationRecord, owner: str, lease: float, now: float) -> Transaction[ConversationRecord]:
    update = yield from execute("take_over", owner, float(now + lease), record.id, record.epoch, float(now))
    if update.count != 1:
        raise FencedError(
            f"{record.id!r} is leased to {record.owner!r} for {record.lease_until - now:.3f} more seconds",
            code="conversation_held",
            hint="Wait until the lease expires, or let its owner release it.",
        )
    new_record = yield from lock(record.id)
    yield from append_audit(new_record, now, "taken_over", {"was": record.owner, "lease_until": new_record.lease_until})
    yield from mark_lost_calls(new_record, now)
    return new_record


def mark_lost_calls(record: ConversationRecord, now: float) -> Transaction[tuple[str, ...]]:
    """Mark calls that were started in an earlier epoch and have no outcome as unknown: they may have run."""
    call_ids = [row[0] for row in (yield from execute("left_started", record.id, record.epoch)).rows]
    for call_id in call_ids:
        call = yield from require_call(record.id, call_id)
        outcome = encode_json(outcome_as_dict(_LOST_OUTCOME))
        yield from execute("end_call", CallState.UNKNOWN.value, outcome, record.id, call_id, call.epoch)
        detail = {"started_in": call.epoch, "code": _LOST_OUTCOME.code}
        yield from append_audit(record, now, CallState.UNKNOWN.value, detail, call_id=call_id)
    return tuple(call_ids)


def mark_unknown(conversation: str, epoch: int, now: float) -> Transaction[tuple[str, ...]]:
    record = yield from lock_owned(conversation, epoch)
    return (yield from mark_lost_calls(record, now))


def renew(conversation: str, epoch: int, lease: float, now: float) -> Transaction[None]:
    # No audit row: a renewal changes only a time, every few seconds.
    yield from lock_owned(conversation, epoch)
    yield from execute("set_lease", float(now + lease), conversation, epoch)


def release(conversation: str, epoch: int, now: float) -> Transaction[None]:
    record = yield from lock_owned(conversation, epoch)
    # Zero instead of now: the next owner's clock may be behind.
    yield from execute("set_lease", 0.0, conversation, epoch)
    yield from append_audit(record, now, "released", {})


def save(conversation: str, epoch: int, state: object, now: float) -> Transaction[int]:
    text = encode_json(state)
    record = yield from lock_owned(conversation, epoch)
    yield from execute("save", text, conversation, epoch)
    yield from append_audit(
        record, now, "saved", {"version": record.version + 1, "state_sha256": sha256(text.encode())}
    )
    return record.version + 1


def load(conversation: str, principal: Principal | None) -> Transaction[ConversationRecord | None]:
    rows = (yield from execute("conversation", conversation)).rows
    if not rows:
        return None
    record = ConversationRecord(*rows[0])
    if principal is not None and (record.tenant, record.principal) != (principal.tenant, principal.name):
        return None
    return record
