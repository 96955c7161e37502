"""What can be done with a conversation, as work: open, hold, save, hand over. Knows no database."""

from __future__ import annotations

from ferrule.core.context import Principal
from ferrule.core.outcome import Unknown
from ferrule.errors import FencedError, LedgerError
from ferrule.run.ledger.audit_chain import GENESIS, noted
from ferrule.run.ledger.claim import checked_name, kept_json, sha256
from ferrule.run.ledger.ledger import CallState, ConversationRecord
from ferrule.run.ledger.transaction import Work, known_call, locked, owned, say
from ferrule.run.machine import outcome_as_dict

_LEFT = Unknown("its owner stopped before it was told what became of the call", code="owner_lost")


def opened(conversation: str, principal: Principal, owner: str, lease: float, now: float) -> Work[ConversationRecord]:
    names = {"a conversation's id": conversation, "a tenant": principal.tenant, "a principal": principal.name}
    for what, name in {**names, "an owner": owner}.items():
        checked_name(name, what)
    until = float(now + lease)
    fresh = ConversationRecord(conversation, principal.tenant, principal.name, owner, 1, until, 0, "null")
    values = (conversation, principal.tenant, principal.name, owner, 1, until, 0, "null", 0, GENESIS)
    if (yield from say("add_conversation", *values)).count:
        yield from noted(fresh, now, "opened", {"lease_until": until})
        return fresh
    held = yield from locked(conversation)
    if (held.tenant, held.principal) != (principal.tenant, principal.name):
        # Whose it is stays untold.
        raise LedgerError(f"the id {conversation!r} is taken", code="conversation_taken", hint="Draw ids at random.")
    return (yield from _handed_over(held, owner, lease, now))


def taken_over(conversation: str, owner: str, lease: float, now: float) -> Work[ConversationRecord]:
    checked_name(owner, "an owner")
    held = yield from locked(conversation)
    return (yield from _handed_over(held, owner, lease, now))


def _handed_over(held: ConversationRecord, owner: str, lease: float, now: float) -> Work[ConversationRecord]:
    moved = yield from say("take_over", owner, float(now + lease), held.id, held.epoch, float(now))
    if moved.count != 1:
        raise FencedError(
            f"{held.id!r} is held by {held.owner!r} for {held.lease_until - now:.3f} seconds more",
            code="conversation_held",
            hint="Wait until the lease has run out, or let its owner release it.",
        )
    now_held = yield from locked(held.id)
    yield from noted(now_held, now, "taken_over", {"was": held.owner, "lease_until": now_held.lease_until})
    yield from left_unknown(now_held, now)
    return now_held


def left_unknown(held: ConversationRecord, now: float) -> Work[tuple[str, ...]]:
    """Every call that was started in an earlier epoch and has no end may have happened: nobody can say."""
    left = [row[0] for row in (yield from say("left_started", held.id, held.epoch)).rows]
    for call_id in left:
        call = yield from known_call(held.id, call_id)
        outcome = kept_json(outcome_as_dict(_LEFT))
        yield from say("end_call", CallState.UNKNOWN.value, outcome, held.id, call_id, call.epoch)
        told = {"started_in": call.epoch, "code": _LEFT.code}
        yield from noted(held, now, CallState.UNKNOWN.value, told, call_id=call_id)
    return tuple(left)


def marked_unknown(conversation: str, epoch: int, now: float) -> Work[tuple[str, ...]]:
    held = yield from owned(conversation, epoch)
    return (yield from left_unknown(held, now))


def renewed(conversation: str, epoch: int, lease: float, now: float) -> Work[None]:
    # No audit row: it changes nothing but a time, every few seconds.
    yield from owned(conversation, epoch)
    yield from say("set_lease", float(now + lease), conversation, epoch)


def released(conversation: str, epoch: int, now: float) -> Work[None]:
    held = yield from owned(conversation, epoch)
    # Zero and not now: the next owner's clock may be behind.
    yield from say("set_lease", 0.0, conversation, epoch)
    yield from noted(held, now, "released", {})


def saved(conversation: str, epoch: int, state: object, now: float) -> Work[int]:
    text = kept_json(state)
    held = yield from owned(conversation, epoch)
    yield from say("save", text, conversation, epoch)
    yield from noted(held, now, "saved", {"version": held.version + 1, "state_sha256": sha256(text.encode())})
    return held.version + 1


def loaded(conversation: str, principal: Principal | None) -> Work[ConversationRecord | None]:
    rows = (yield from say("conversation", conversation)).rows
    if not rows:
        return None
    held = ConversationRecord(*rows[0])
    if principal is not None and (held.tenant, held.principal) != (principal.tenant, principal.name):
        return None
    return held
