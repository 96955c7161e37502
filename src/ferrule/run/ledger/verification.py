"""Verifies audit logs page by page, so that a ledger of any size fits into memory. Independent of the database."""

from __future__ import annotations

from itertools import groupby

from ferrule.run.ledger.audit_chain import GENESIS, first_breach
from ferrule.run.ledger.ledger import AuditRecord, Breach
from ferrule.run.ledger.retention_tables import STRAY_CONDITIONS
from ferrule.run.ledger.transaction import Transaction, execute

_PAGE = 500
_MAX_ROWS = 10_000
"""How many audit rows are in memory at most, unless one conversation has more."""
_MAX_TRIES = 100


def read_audit(conversation: str) -> Transaction[tuple[AuditRecord, ...]]:
    """Return the audit log of a conversation, also of one whose own row is gone."""
    rows = (yield from execute("audit", conversation, conversation)).rows
    # Without its conversation, nothing says in which partition an audit row is.
    rows = rows or (yield from execute("audit_anywhere", conversation)).rows
    return tuple(AuditRecord(*row) for row in rows)


def verify_conversation(conversation: str) -> Transaction[Breach | None]:
    breach = None
    for _ in range(_MAX_TRIES):
        last, head = yield from _head(conversation)
        breach = first_breach(conversation, (yield from read_audit(conversation)), last, head)
        if breach is None or (last, head) == (yield from _head(conversation)):
            return breach
        # A step came in between: the rows are newer than the head.
    return breach


def verify_page(after: str) -> Transaction[tuple[Breach | None, int, str]]:
    """Verify the conversations after an id. Returns the first breach, how many were verified, and the last id."""
    heads = (yield from execute("conversation_page", after, _PAGE)).rows
    rows_left, count = _MAX_ROWS, 0
    for _, seq, _ in heads:
        rows_left -= seq
        if count and rows_left < 0:
            break
        count += 1
    heads = heads[:count]
    if not heads:
        return None, 0, after
    last = heads[-1][0]
    rows = [AuditRecord(*row) for row in (yield from execute("audit_page", after, last)).rows]
    chains = {id: list(chain) for id, chain in groupby(rows, key=lambda row: row.conversation)}
    for id, seq, head in heads:
        if first_breach(id, chains.get(id, ()), seq, head) is not None:
            # Perhaps it has only changed since its head was read.
            breach = yield from verify_conversation(id)
            if breach is not None:
                return breach, count, last
    return None, count, last


def find_stray_audit() -> Transaction[Breach | None]:
    """Return an audit row that belongs to no conversation."""
    rows = (yield from execute("stray_audit")).rows
    if not rows:
        return None
    ((conversation, seq),) = rows
    return (yield from verify_conversation(conversation)) or Breach(conversation, seq, "inserted")


def count_strays() -> Transaction[dict[str, int]]:
    """Return how many rows of each table belong to no conversation, up to a thousand."""
    counts: dict[str, int] = {}
    for table in STRAY_CONDITIONS:
        ((count,),) = (yield from execute(f"stray_{table}")).rows
        if count:
            counts[table] = count
    return counts


def _head(conversation: str) -> Transaction[tuple[int, str]]:
    rows = (yield from execute("head", conversation)).rows
    return rows[0] if rows else (0, GENESIS)
