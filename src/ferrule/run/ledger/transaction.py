"""Transaction: a generator that yields statements and steps, and receives their results. It does no IO itself.

So the logic exists once for all databases. A statement that is yielded alone is a transaction of its own; so is a step,
which writes everything that belongs to a transition of a conversation, or nothing.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from ferrule.core.json_text import loads
from ferrule.core.outcome import Unknown
from ferrule.run.ledger.ledger import (
    Approval,
    ApprovalState,
    CallRecord,
    CallState,
    ResponseRecord,
    ResponseStatus,
)
from ferrule.run.machine import outcome_from_dict

if TYPE_CHECKING:
    from ferrule.run.ledger.step import Step

T = TypeVar("T")
Row: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement, by its name in `tables.STATEMENTS`, and its values. It is committed by itself."""

    name: str
    values: tuple[object, ...] = ()


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The rows that were read, or how many rows were changed; for a step, 1 if it was written."""

    rows: list[Row] = field(default_factory=list[Row])
    count: int = 0


Transaction: TypeAlias = "Generator[Statement | Step, QueryResult, T]"


def execute(name: str, *values: object) -> Transaction[QueryResult]:
    return (yield Statement(name, values))


def call_of(row: Row) -> CallRecord:
    *identity, side_effects, needs_approval, state, epoch, outcome = row
    recorded = outcome_from_dict(_decode_json(outcome))
    task = recorded.reason if state == CallState.STARTED and isinstance(recorded, Unknown) else ""
    return CallRecord(
        *_with_bytes(identity, 4),
        side_effects=bool(side_effects),
        needs_approval=bool(needs_approval),
        state=CallState(state),
        epoch=epoch,
        outcome=None if task else recorded,
        task=task,
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


def response_of(row: Row) -> ResponseRecord:
    id, conversation, tenant, principal, status, model, created, reach, cancelled, request = row
    whose = (id, conversation, tenant, principal)
    return ResponseRecord(*whose, ResponseStatus(status), model, created, reach, bool(cancelled), request)


def _decode_json(text: str) -> Any:
    return loads(text)


def _with_bytes(values: list[Any], at: int) -> list[Any]:
    # A driver may return a view of its own buffer.
    return [bytes(value) if place == at else value for place, value in enumerate(values)]
