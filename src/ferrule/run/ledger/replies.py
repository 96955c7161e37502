"""Writing down what a model replied, as work: one row of audit, and what it chose. Knows no database."""

from __future__ import annotations

from ferrule.run.ledger.audit_chain import noted
from ferrule.run.ledger.tool_usage import noted_selection
from ferrule.run.ledger.transaction import Work, owned
from ferrule.run.reply_record import REPLIED, Replied


def noted_reply(replied: Replied, epoch: int, now: float) -> Work[None]:
    """Where a model is asked again after a crash, both rows stay: both replies took their time and their tokens."""
    held = yield from owned(replied.conversation, epoch)
    if replied.selection is not None:
        yield from noted_selection(held, replied, replied.selection, now)
    yield from noted(held, now, REPLIED, replied.as_detail())
