"""The hash chain of the audit log, one per conversation: appending to it, and finding the first row that was changed.

There is one chain per conversation instead of one for all, so that conversations do not wait for each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, replace

from ferrule.core.json_text import canonical
from ferrule.errors import LedgerError
from ferrule.run.ledger.claim import encode_json, sha256
from ferrule.run.ledger.ledger import AuditRecord, Breach, ConversationRecord
from ferrule.run.ledger.transaction import Transaction, execute

GENESIS = "0" * 64


def append_audit(
    record: ConversationRecord,
    now: float,
    kind: str,
    detail: Mapping[str, object],
    *,
    call_id: str = "",
    approval: str = "",
    by: str = "",
) -> Transaction[None]:
    """Append one row, in the transaction that makes the change."""
    ((seq, head),) = (yield from execute("head", record.id)).rows
    detail_text = encode_json(detail)
    row = AuditRecord(
        record.id, seq + 1, float(now), kind, call_id, approval, by or record.owner, record.epoch, detail_text, head, ""
    )
    row = replace(row, hash=hash_of(row))
    yield from execute("add_audit", *astuple(row))
    update = yield from execute("move_head", row.seq, row.hash, record.id, seq)
    if update.count != 1:
        raise LedgerError(f"the audit log of {record.id!r} was appended to in the meantime", code="ledger_conflict")


def hash_of(row: AuditRecord) -> str:
    fields = asdict(row)
    del fields["hash"], fields["previous"]
    return sha256((str(row.previous) + canonical(fields)).encode("utf-8", "surrogatepass"))


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
