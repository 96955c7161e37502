"""Work: one transaction as a generator that yields statements and is sent their answers. No IO of its own.

So there is one meaning for all databases: a driver runs a whole generator inside one transaction, in a thread or on
the event loop, and takes everything back if it raises.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from ferrule.core.json_text import loads
from ferrule.errors import FencedError, LedgerError
from ferrule.run.ledger.ledger import Approval, ApprovalState, CallRecord, CallState, ConversationRecord
from ferrule.run.machine import outcome_from_dict

T = TypeVar("T")
Row: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement by its name in the table, and its values."""

    name: str
    values: tuple[object, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """The rows that were read, or how many were changed."""

    rows: list[Row] = field(default_factory=list[Row])
    count: int = 0


Work: TypeAlias = Generator[Statement, Answer, T]


def say(name: str, *values: object) -> Work[Answer]:
    return (yield Statement(name, values))


def locked(conversation: str) -> Work[ConversationRecord]:
    """The conversation, which nobody else can change until the transaction ends."""
    answer = yield from say("lock_conversation", conversation)
    if not answer.rows:
        raise LedgerError(f"there is no conversation {conversation!r}", code="unknown_conversation")
    return ConversationRecord(*answer.rows[0])


def owned(conversation: str, epoch: int) -> Work[ConversationRecord]:
    """The same, for the owner of this epoch only."""
    held = yield from locked(conversation)
    if held.epoch != epoch:
        raise FencedError(
            f"{conversation!r} is in epoch {held.epoch}, and this owner's is {epoch}",
            hint="Another process has taken the conversation over: stop, and load it again.",
        )
    return held


def known_call(conversation: str, call_id: str) -> Work[CallRecord]:
    answer = yield from say("call", conversation, call_id)
    if not answer.rows:
        raise LedgerError(f"there is no call {call_id!r} in {conversation!r}", code="unknown_call")
    return call_of(answer.rows[0])


def call_of(row: Row) -> CallRecord:
    *identity, side_effects, needs_leave, state, epoch, outcome = row
    return CallRecord(
        *_with_bytes(identity, 4),
        side_effects=bool(side_effects),
        needs_leave=bool(needs_leave),
        state=CallState(state),
        epoch=epoch,
        outcome=outcome_from_dict(_read(outcome)),
    )


def approval_of(row: Row) -> Approval:
    *identity, state, requested_at, expires_at, decided_by, decided_at, why = row
    return Approval(
        *_with_bytes(identity, 7),
        state=ApprovalState(state),
        requested_at=requested_at,
        expires_at=expires_at,
        decided_by=decided_by,
        decided_at=decided_at,
        why=_read(why),
    )


def _read(text: str) -> Any:
    return loads(text)


def _with_bytes(values: list[Any], at: int) -> list[Any]:
    # A driver may hand out a view of its own buffer.
    return [bytes(value) if place == at else value for place, value in enumerate(values)]
