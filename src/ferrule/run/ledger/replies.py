"""The transaction that records a reply: its audit row, and its tool usage. Independent of the database."""

from __future__ import annotations

from ferrule.run.ledger.audit_chain import append_audit
from ferrule.run.ledger.tool_usage import insert_usage
from ferrule.run.ledger.transaction import Transaction, lock_owned
from ferrule.run.reply_record import REPLY_KIND, ReplyRecord


def record_reply(reply: ReplyRecord, epoch: int, now: float) -> Transaction[None]:
    """Record a reply. If a model is asked again after a crash, both audit rows stay: both replies had a cost."""
    record = yield from lock_owned(reply.conversation, epoch)
    if reply.tool_usage is not None:
        yield from insert_usage(record, reply, reply.tool_usage, now)
    yield from append_audit(record, now, REPLY_KIND, reply.as_detail())
