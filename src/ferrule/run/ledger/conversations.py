"""The transitions of conversations: open, renew, save, take over. Independent of the database."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from ferrule.core.context import Principal
from ferrule.core.outcome import Unknown
from ferrule.errors import FencedError, LedgerError
from ferrule.run.ledger.claim import require_name
from ferrule.run.ledger.held_conversations import HeldConversations
from ferrule.run.ledger.lease_tables import WHILE_ALIVE
from ferrule.run.ledger.ledger import CallRecord, CallState, ConversationRecord, StoredRequest
from ferrule.run.ledger.stored_requests import request_row
from ferrule.run.ledger.transaction import Transaction, call_of, execute
from ferrule.run.ledger.transition import Body, Transition, change, conflict_error, find_owned, find_record
from ferrule.run.ledger.writes import Kind

T = TypeVar("T")

_LOST_OUTCOME = Unknown("its owner stopped before the outcome was recorded", code="owner_lost")
_DAY = 86_400
_FIRST_EPOCH = 1
_MAX_TRIES = 20


def open_conversation(
    held: HeldConversations, conversation: str, principal: Principal, owner: str, lease: float, now: float
) -> Transaction[ConversationRecord]:
    transition = _opening(conversation, principal, owner, lease, now)
    step = transition.step()
    assert step is not None
    if (yield step).count:
        held.put(transition.record)
        return transition.record
    yield from _find_own(conversation, principal)
    return (yield from take_over(held, conversation, owner, lease, now))


def begin(
    held: HeldConversations,
    conversation: str,
    principal: Principal,
    owner: str,
    lease: float,
    request: StoredRequest | None,
    now: float,
    body: Body[T],
) -> Transaction[tuple[ConversationRecord, T]]:
    """Open a new conversation and run a transition in it, in one step."""
    transition = _opening(conversation, principal, owner, lease, now)
    if request is not None:
        transition.write(Kind.REQUEST, *request_row(request, now))
    result = yield from body(transition)
    step = transition.step()
    assert step is not None
    if (yield step).count:
        held.put(transition.record, transition.known_after)
        return transition.record, result
    record = yield from _find_own(conversation, principal)
    if (record.owner, record.epoch) != (owner, _FIRST_EPOCH):
        raise FencedError(
            f"{conversation!r} was opened by another owner", code="conversation_held", hint="Use random ids."
        )
    # It was written before, and the answer was lost.
    result = yield from change(held, conversation, _FIRST_EPOCH, now, body)
    return record, result


def new_record(conversation: str, principal: Principal, owner: str, lease: float, now: float) -> ConversationRecord:
    """Return a conversation as it is when it is opened."""
    names = {"a conversation's id": conversation, "a tenant": principal.tenant, "a principal": principal.name}
    for what, name in {**names, "an owner": owner}.items():
        require_name(name, what)
    now, until = float(now), float(now + lease)
    whose = (conversation, principal.tenant, principal.name, owner)
    return ConversationRecord(
        *whose, _FIRST_EPOCH, until, 0, "null", opened_at=now, changed_at=now, born=int(now) // _DAY
    )


def _opening(conversation: str, principal: Principal, owner: str, lease: float, now: float) -> Transition:
    transition = Transition(new_record(conversation, principal, owner, lease, now), float(now))
    transition.audit("opened", {"lease_until": transition.record.lease_until})
    return transition


def _find_own(conversation: str, principal: Principal) -> Transaction[ConversationRecord]:
    record = yield from find_record(conversation)
    if (record.tenant, record.principal) != (principal.tenant, principal.name):
        # The message does not say whose it is.
        raise LedgerError(f"the id {conversation!r} is taken", code="conversation_taken", hint="Use random ids.")
    return record


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
            # Read after it was taken: now nobody else changes it, unless this process sleeps for longer than its lease.
            return (yield from _with_state(transition.record, transition.record.epoch))
    raise conflict_error(conversation)


def mark_lost_calls(transition: Transition) -> Transaction[tuple[str, ...]]:
    """Mark calls that were started in an earlier epoch and have no outcome as unknown: they may have run.

    Those that are tasks of their servers go to the new owner.
    """
    record = transition.record
    rows = (yield from execute("left_started", record.id, record.epoch)).rows
    started: list[CallRecord] = [call_of(row) for row in rows]
    resumed = [call for call in started if call.task]
    for call in resumed:
        # Its server works at it still: the new owner waits for the task, instead of the one that began it.
        transition.change_call(call, replace(call, epoch=record.epoch))
        transition.audit("task_resumed", {"started_in": call.epoch}, call_id=call.id)
    lost = [call for call in started if not call.task]
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
    return (yield from _with_state(record, None))


def _with_state(record: ConversationRecord, epoch: int | None) -> Transaction[ConversationRecord]:
    """Return the conversation with its state and its messages, as of one moment.

    For the owner of an epoch, all of it is of that epoch. With the epoch of another owner it would write as if it was
    that one.
    """
    for _ in range(_MAX_TRIES):
        if not record.version:
            return record
        messages = (yield from execute("messages", record.born, record.id, record.messages)).rows
        ((version, state),) = (yield from execute("state", record.id)).rows
        if version == record.version:
            # Messages are written with a new version: these belong to the state.
            return replace(record, state_text=state, message_texts=tuple(row[0] for row in messages))
        record = yield from find_owned(record.id, epoch)
    raise conflict_error(record.id)
