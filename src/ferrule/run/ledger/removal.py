"""Removal: what removes one conversation from a ledger, ready to be written, and how it is written in each database.

A removal is fenced like a step: it names the conversation as it was read (epoch, number of the last audit row, lease).
If anything has changed since, nothing happens. So of a process that opens a conversation and one that removes it, one
wins, and the other finds what the first has left.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace

from ferrule.run.ledger.audit_chain import hash_of
from ferrule.run.ledger.claim import encode_json
from ferrule.run.ledger.ledger import AuditRecord
from ferrule.run.ledger.retention_tables import CONTENT, ENDLESS_LEASE, STUB
from ferrule.run.ledger.transaction import Row, Transaction, execute

PRUNED, DELETED = "pruned", "deleted"
"""The kinds of the audit row with which a chain ends: removed by age, or for a person."""
_AUDIT = "conversation, seq, at, kind, call_id, approval, decided_by, epoch, detail, previous, hash, born"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A conversation that may be removed, and why not; empty if it can."""

    id: str
    born: int
    epoch: int
    seq: int
    head: str
    lease_until: float
    held_until: float
    tenant: str
    principal: str
    messages: int
    changed_at: float
    reason: str

    @staticmethod
    def of(row: Row) -> Candidate:
        return Candidate(*row)


@dataclass(frozen=True, slots=True)
class Removal:
    """`row` is the last row of the audit log. With `has_messages` the messages stay, to be dropped with their week."""

    candidate: Candidate
    row: AuditRecord
    has_messages: bool = False

    @staticmethod
    def of(candidate: Candidate, kind: str, by: str, now: float, *, has_messages: bool = False) -> Removal:
        """Return the removal of a conversation. For a person who is to be forgotten, the audit does not name them."""
        detail: dict[str, object] = {"messages": candidate.messages, "changed_at": candidate.changed_at}
        if kind == PRUNED:
            detail |= {"tenant": candidate.tenant, "principal": candidate.principal}
        what = (float(now), kind, "", "", by, candidate.epoch + 1, encode_json(detail))
        row = AuditRecord(candidate.id, candidate.seq + 1, *what, candidate.head, "")
        return Removal(candidate, replace(row, hash=hash_of(row)), has_messages)


def remove(removals: Sequence[Removal], recent: float) -> Transaction[set[str]]:
    """Remove conversations, in one transaction. Requests since `recent` may still be retried. Returns the ids removed.

    This is for SQLite.
    """
    gone: set[str] = set()
    for one in removals:
        row, was = one.row, one.candidate
        guard = (was.id, was.epoch, was.seq, was.lease_until)
        if (yield from execute("mark_pruned", row.seq, row.hash, was.changed_at, *guard)).count:
            gone.add(was.id)
            yield from execute("add_audit", *astuple(row), was.born)
    if gone:
        for name, text in CONTENT.items():
            yield from execute(f"remove_{name}", *[float(recent)] * text.count("?"))
        yield from execute("remove_messages")
        yield from execute("settle_stubs")
    return gone


def remove_stubs(stubs: Sequence[tuple[str, int, int]]) -> Transaction[int]:
    """Remove stubs with their audit logs, in one transaction. This is for SQLite."""
    count = 0
    for id, _, seq in stubs:
        count += (yield from execute("mark_stub", id, seq)).count
    for name in STUB:
        yield from execute(f"remove_stub_{name}")
    yield from execute("remove_stub_audit")
    yield from execute("remove_stubs")
    return count


# --- Postgres: one statement, so that a process that is stopped holds no lock -----------------------------------------

_GONE = "(SELECT id FROM gone)"
_CONTENT_PARTS = ", ".join(
    f"{name} AS ({text.format(gone=_GONE).replace('?', '%s')})" for name, text in CONTENT.items()
)
_STEP = (
    "step AS MATERIALIZED (SELECT * FROM json_to_recordset(%s::json) AS x(id TEXT, was_epoch BIGINT, was_seq BIGINT, "
    "was_lease DOUBLE PRECISION, changed_at DOUBLE PRECISION, pruned BIGINT, "
    "conversation TEXT, seq BIGINT, at DOUBLE PRECISION, kind TEXT, call_id TEXT, approval TEXT, decided_by TEXT, "
    "epoch BIGINT, detail TEXT, previous TEXT, hash TEXT, born BIGINT))"
)
# "+ 0" keeps the planner from an index on `pruned`: it has to find conversations by their ids.
POSTGRES_REMOVAL = (
    f"WITH {_STEP}, "
    "marked AS (UPDATE ferrule_conversation c SET tenant = '', principal = '', owner = '', epoch = c.epoch + 1, "
    f"lease_until = {ENDLESS_LEASE!r}, state = 'null', messages = 0, title = '', audit_seq = x.seq, "
    "audit_head = x.hash, changed_at = x.changed_at, pruned = x.pruned FROM step x WHERE c.id = x.id "
    "AND c.epoch = x.was_epoch AND c.audit_seq = x.was_seq AND c.lease_until = x.was_lease AND c.pruned + 0 = 0 "
    "RETURNING c.id, c.born, x.pruned), gone AS MATERIALIZED (SELECT * FROM marked), "
    f"{_CONTENT_PARTS}, "
    "messages AS (DELETE FROM ferrule_message m USING gone g WHERE g.pruned = 2 AND m.conversation = g.id "
    "AND m.born = g.born), "
    f"audit AS (INSERT INTO ferrule_audit ({_AUDIT}) SELECT {', '.join(f'x.{name}' for name in _AUDIT.split(', '))} "
    "FROM step x JOIN gone g ON g.id = x.id) SELECT id FROM gone"
)
POSTGRES_STUB_REMOVAL = (
    "WITH step AS MATERIALIZED (SELECT * FROM json_to_recordset(%s::json) AS x(id TEXT, seq BIGINT)), "
    "removed AS (DELETE FROM ferrule_conversation c USING step x WHERE c.id = x.id AND c.audit_seq = x.seq "
    "AND c.pruned + 0 > 0 RETURNING c.id, c.born), gone AS MATERIALIZED (SELECT * FROM removed), "
    + ", ".join(f"{name} AS ({text.format(gone=_GONE)})" for name, text in STUB.items())
    + ", messages AS (DELETE FROM ferrule_message m USING gone g WHERE m.conversation = g.id AND m.born = g.born), "
    "audit AS (DELETE FROM ferrule_audit a USING gone g WHERE a.conversation = g.id AND a.born IN (0, g.born)) "
    "SELECT COUNT(*) FROM gone"
)
# The messages of stubs in a week that cannot be dropped, because a conversation of that week is still in use.
POSTGRES_SWEEP = (
    "WITH swept AS (UPDATE ferrule_conversation SET pruned = 2 WHERE id IN (SELECT id FROM ferrule_conversation "
    "WHERE pruned = 1 AND {week} ORDER BY born, id LIMIT {limit} FOR UPDATE SKIP LOCKED) RETURNING id, born), "
    "messages AS (DELETE FROM ferrule_message m USING swept g WHERE m.conversation = g.id AND m.born = g.born) "
    "SELECT COUNT(*) FROM swept"
)


def postgres_removal(removals: Sequence[Removal], recent: float) -> list[object]:
    """Return the values of `POSTGRES_REMOVAL`."""
    names = _AUDIT.split(", ")
    rows = [
        {
            "id": one.candidate.id,
            "was_epoch": one.candidate.epoch,
            "was_seq": one.candidate.seq,
            "was_lease": one.candidate.lease_until,
            "changed_at": one.candidate.changed_at,
            "pruned": 1 if one.has_messages else 2,
            **dict(zip(names, (*astuple(one.row), one.candidate.born), strict=True)),
        }
        # In the order in which steps are written, so that the two cannot wait for each other.
        for one in sorted(removals, key=lambda one: one.candidate.id)
    ]
    return [json.dumps(rows, ensure_ascii=False), *[float(recent)] * _CONTENT_PARTS.count("%s")]


def postgres_stub_removal(stubs: Sequence[tuple[str, int, int]]) -> list[object]:
    """Return the values of `POSTGRES_STUB_REMOVAL`."""
    return [json.dumps([{"id": id, "seq": seq} for id, _, seq in sorted(stubs)], ensure_ascii=False)]
