"""The transitions of conversations: open, renew, save, take over. Independent of the database."""

from __future__ import annotations

from dataclasses import replace

from ferrule.core.context import Principal
from ferrule.core.outcome import Unknown
from ferrule.errors import FencedError, LedgerError
from ferrule.run.ledger.claim import require_name
from ferrule.run.ledger.held_conversations import HeldConversations
from ferrule.run.ledger.lease_tables import WHILE_ALIVE
from ferrule.run.ledger.ledger import CallRecord, CallState, ConversationRecord
from ferrule.run.ledger.transaction import Transaction, call_of, execute
from ferrule.run.ledger.transition import Transition, conflict_error, find_owned, find_record

_LOST_OUTCOME = Unknown("its owner stopped before the outcome was recorded", code="owner_lost")
_DAY = 86_400
_MAX_TRIES = 20


def open_conversation(
    held: HeldConversations, conversation: str, principal: Principal, owner: str, lease: float, now: float
) -> Transaction[ConversationRecord]:
    names = {"a conversation's id": conversation, "a tenant": principal.tenant, "a principal": principal.name}
    for what, name in {**names, "an owner": owner}.items():
        require_name(name, what)
    now, until = float(now), float(now + lease)
    whose = (conversation, principal.tenant, principal.name)
    fresh = ConversationRecord(*whose, owner, 1, until, 0, "null", opened_at=now, changed_at=now, born=int(now) // _DAY)
    transition = Transition(fresh, now)
    transition.audit("opened", {"lease_until": until})
    step = transition.step()
    assert step is not None
    if (yield step).count:
        held.put(transition.record)
        return transition.record
    record = yield from find_record(conversation)
    if (record.tenant, record.principal) != (principal.tenant, principal.name):
        # The message does not say whose it is.
        raise LedgerError(f"the id {conversation!r} is taken", code="conversation_taken", hint="Use random ids.")
    return (yield from take_over(held, conversation, owner, lease, now))


def take_over(
    held: HeldConversations, conversation: str, owner: str, lease: float, now: float
) -> Transaction[ConversationRecord]:
    require_name(owner, "an owner")
    for _ in range(_MAX_TRIES):
        record = yield from find_record(conversation)
        if record.held_until > now:
            raise FencedError(
                f"{record.id!r} is leased to {record.owner!r} for {record.held_until - now:.3f} more seconds",
                code="conversation_held",
                hint="Wait until the lease expires, or let its owner release it.",
            )
        transition = Transition.of(record, now)
        transition.hand_over(owner, float(now + lease))
        transition.audit("taken_over", {"was": record.owner, "lease_until": transition.record.lease_until})
        yield from mark_lost_calls(transition)
        step = transition.step()
        assert step is not None
        if (yield step).count:
            held.put(transition.record)
            # Read after it was taken: now nobody else changes it.
            return (yield from _with_state(transition.record))
    raise conflict_error(conversation)


def mark_lost_calls(transition: Transition) -> Transaction[tuple[str, ...]]:
    """Mark calls that were started in an earlier epoch and have no outcome as unknown: they may have run."""
    record = transition.record
    rows = (yield from execute("left_started", record.id, record.epoch)).rows
    lost: list[CallRecord] = [call_of(row) for row in rows]
    for call in lost:
        transition.change_call(call, replace(call, state=CallState.UNKNOWN, outcome=_LOST_OUTCOME))
        detail = {"started_in": call.epoch, "code": _LOST_OUTCOME.code}
        transition.audit(CallState.UNKNOWN.value, detail, call_id=call.id)
    return tuple(call.id for call in lost)


def renew(held: HeldConversations, conversation: str, epoch: int, lease: float, now: float) -> Transaction[None]:
    # No audit row: a renewal changes only a time, every few seconds.
    until = float(now + lease)
    if not (yield from execute("set_lease", until, conversation, epoch)).count:
        yield from find_owned(conversation, epoch)
    known = held.get(conversation, epoch)
    if known is not None:
        held.put(replace(known, lease_until=until))


def keep(transition: Transition) -> Transaction[None]:
    """Hold the conversation for as long as its owner lives."""
    transition.set_lease(WHILE_ALIVE)
    yield from ()


def let_go(transition: Transition, lease: float) -> Transaction[None]:
    if transition.record.lease_until == WHILE_ALIVE:
        transition.set_lease(transition.now + lease)
    yield from ()


def release(transition: Transition) -> None:
    # Zero instead of now: the next owner's clock may be behind.
    transition.set_lease(0.0)
    transition.audit("released", {})


def load(conversation: str, principal: Principal | None) -> Transaction[ConversationRecord | None]:
    rows = (yield from execute("conversation_head", conversation)).rows
    if not rows:
        return None
    record = ConversationRecord(*rows[0])
    if record.is_removed:
        return None
    if principal is not None and (record.tenant, record.principal) != (principal.tenant, principal.name):
        return None
    return (yield from _with_state(record))


def _with_state(record: ConversationRecord) -> Transaction[ConversationRecord]:
    """Return the conversation with its state and its messages, as of one moment."""
    for _ in range(_MAX_TRIES):
        if not record.version:
            return record
        messages = (yield from execute("messages", record.born, record.id, record.messages)).rows
        ((version, state),) = (yield from execute("state", record.id)).rows
        if version == record.version:
            # Messages are written with a new version: these belong to the state.
            return replace(record, state_text=state, message_texts=tuple(row[0] for row in messages))
        record = yield from find_record(record.id)
    raise conflict_error(record.id)
