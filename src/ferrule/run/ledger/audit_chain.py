"""The hash chain of the audit log, one per conversation: the hash of a row, and finding the first that was changed.

There is one chain per conversation instead of one for all, so that conversations do not wait for each other.
"""

from __future__ import annotations

from collections.abc import Sequence

from ferrule.core.json_text import canonical
from ferrule.run.ledger.claim import sha256
from ferrule.run.ledger.ledger import GENESIS, AuditRecord, Breach

__all__ = ["GENESIS", "first_breach", "hash_of", "hash_of_fields"]


def hash_of(row: AuditRecord) -> str:
    """Return the hash of a row: over the previous row's hash and all its other fields."""
    who = (row.kind, row.call_id, row.approval, row.by, row.epoch)
    return hash_of_fields(row.previous, row.conversation, row.seq, row.at, *who, row.detail)


def hash_of_fields(
    previous: object,
    conversation: object,
    seq: object,
    at: object,
    kind: object,
    call_id: object,
    approval: object,
    by: object,
    epoch: object,
    detail: object,
) -> str:
    """Return the hash of a row with these fields. One that was changed past the ledger may contain anything."""
    fields = {
        "approval": approval,
        "at": at,
        "by": by,
        "call_id": call_id,
        "conversation": conversation,
        "detail": detail,
        "epoch": epoch,
        "kind": kind,
        "seq": seq,
    }
    return sha256((str(previous) + canonical(fields)).encode("utf-8", "surrogatepass"))


def first_breach(conversation: str, rows: Sequence[AuditRecord], last: int, head: str) -> Breach | None:
    """Return the first row that is not as it was written; None if the chain is intact.

    `last` and `head` are the number and the hash of the newest row, as the conversation's own row stores them.
    """
    previous = GENESIS
    for expected, row in enumerate(rows, start=1):
        if row.seq != expected:
            return Breach(conversation, expected, "removed" if _is_later(row.seq, expected) else "inserted")
        if expected > last:
            return Breach(conversation, expected, "inserted")
        if not _is_intact(row):
            return Breach(conversation, expected, "changed")
        if row.previous != previous:
            # This row is intact, but it was written after another row than the one before it now.
            return Breach(conversation, max(1, expected - 1), "changed")
        previous = row.hash
    if len(rows) < last:
        return Breach(conversation, len(rows) + 1, "removed")
    return Breach(conversation, last, "changed") if previous != head else None


def _is_later(seq: object, expected: int) -> bool:
    return isinstance(seq, int) and seq > expected


def _is_intact(row: AuditRecord) -> bool:
    try:
        return row.hash == hash_of(row)
    except (TypeError, ValueError):
        # A value that is not JSON was not written by Ferrule.
        return False
