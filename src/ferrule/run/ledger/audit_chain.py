"""The audit's hash chain, one per conversation: adding to it, and finding the first row that is not what was written.

One for each conversation and not one for all, so that conversations do not wait for each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, replace

from ferrule.core.json_text import canonical
from ferrule.errors import LedgerError
from ferrule.run.ledger.claim import kept_json, sha256
from ferrule.run.ledger.ledger import AuditRecord, Breach, ConversationRecord
from ferrule.run.ledger.transaction import Work, say

GENESIS = "0" * 64


def noted(
    held: ConversationRecord,
    now: float,
    kind: str,
    detail: Mapping[str, object],
    *,
    call_id: str = "",
    approval: str = "",
    by: str = "",
) -> Work[None]:
    """One row more, in the transaction that makes the change."""
    ((seq, head),) = (yield from say("head", held.id)).rows
    told = kept_json(detail)
    row = AuditRecord(
        held.id, seq + 1, float(now), kind, call_id, approval, by or held.owner, held.epoch, told, head, ""
    )
    row = replace(row, hash=hash_of(row))
    yield from say("add_audit", *astuple(row))
    moved = yield from say("move_head", row.seq, row.hash, held.id, seq)
    if moved.count != 1:
        raise LedgerError(f"the audit of {held.id!r} grew meanwhile", code="ledger_conflict")


def hash_of(row: AuditRecord) -> str:
    fields = asdict(row)
    del fields["hash"], fields["previous"]
    return sha256((str(row.previous) + canonical(fields)).encode("utf-8", "surrogatepass"))


def first_breach(conversation: str, rows: Sequence[AuditRecord], last: int, head: str) -> Breach | None:
    """`last` and `head` are the number and the hash that the conversation itself keeps of its newest row."""
    before = GENESIS
    for expected, row in enumerate(rows, start=1):
        if row.seq != expected:
            return Breach(conversation, expected, "removed" if _is_later(row.seq, expected) else "inserted")
        if expected > last:
            return Breach(conversation, expected, "inserted")
        if not _holds(row):
            return Breach(conversation, expected, "changed")
        if row.previous != before:
            # This row is whole and follows another one than stands there.
            return Breach(conversation, max(1, expected - 1), "changed")
        before = row.hash
    if len(rows) < last:
        return Breach(conversation, len(rows) + 1, "removed")
    return Breach(conversation, last, "changed") if before != head else None


def _is_later(seq: object, expected: int) -> bool:
    return isinstance(seq, int) and seq > expected


def _holds(row: AuditRecord) -> bool:
    try:
        return row.hash == hash_of(row)
    except (TypeError, ValueError):
        # A column that holds what is no JSON was not written by us.
        return False
