"""Transaction: a generator that yields statements and receives their results. It does no IO itself.

So the logic exists once for all databases. A driver runs a whole generator inside one database transaction, in a thread
or on the event loop, and rolls everything back if it raises.
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
    """A statement, by its name in `tables.STATEMENTS`, and its values."""

    name: str
    values: tuple[object, ...] = ()


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The rows that were read, or how many rows were changed."""

    rows: list[Row] = field(default_factory=list[Row])
    count: int = 0


Transaction: TypeAlias = Generator[Statement, QueryResult, T]


def execute(name: str, *values: object) -> Transaction[QueryResult]:
    return (yield Statement(name, values))


def lock(conversation: str) -> Transaction[ConversationRecord]:
    """Lock a conversation until the transaction ends, and return it."""
    result = yield from execute("lock_conversation", conversation)
    if not result.rows:
        raise LedgerError(f"there is no conversation {conversation!r}", code="unknown_conversation")
    return ConversationRecord(*result.rows[0])


def lock_owned(conversation: str, epoch: int) -> Transaction[ConversationRecord]:
    """Lock a conversation for the owner of this epoch. Raises `FencedError` for any other epoch."""
    record = yield from lock(conversation)
    if record.epoch != epoch:
        raise FencedError(
            f"{conversation!r} is in epoch {record.epoch}; this owner has epoch {epoch}",
            hint="Another process has taken the conversation over. Stop, and load it again.",
        )
    return record


def require_call(conversation: str, call_id: str) -> Transaction[CallRecord]:
    result = yield from execute("call", conversation, call_id)
    if not result.rows:
        raise LedgerError(f"there is no call {call_id!r} in {conversation!r}", code="unknown_call")
    return call_of(result.rows[0])


def call_of(row: Row) -> CallRecord:
    *identity, side_effects, needs_approval, state, epoch, outcome = row
    return CallRecord(
        *_with_bytes(identity, 4),
        side_effects=bool(side_effects),
        needs_approval=bool(needs_approval),
        state=CallState(state),
        epoch=epoch,
        outcome=outcome_from_dict(_decode_json(outcome)),
    )


def approval_of(row: Row) -> Approval:
    *identity, state, requested_at, expires_at, decided_by, decided_at, why, needed, four_eyes, votes = row
    return Approval(
        *_with_bytes(identity, 7),
        state=ApprovalState(state),
        requested_at=requested_at,
        expires_at=expires_at,
        decided_by=decided_by,
        decided_at=decided_at,
        why=_decode_json(why),
        needed=needed,
        four_eyes=bool(four_eyes),
        votes=votes,
    )


def _decode_json(text: str) -> Any:
    return loads(text)


def _with_bytes(values: list[Any], at: int) -> list[Any]:
    # A driver may return a view of its own buffer.
    return [bytes(value) if place == at else value for place, value in enumerate(values)]
