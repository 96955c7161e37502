"""The transition that records a reply: its audit row, and its tool usage. Independent of the database."""

from __future__ import annotations

from ferrule.run.ledger.tool_usage import write_usage
from ferrule.run.ledger.transition import Transition
from ferrule.run.reply_record import REPLY_KIND, ReplyRecord


def record_reply(transition: Transition, reply: ReplyRecord, offer: str) -> None:
    """Record a reply. If a model is asked again after a crash, both audit rows stay: both replies had a cost.

    `offer` is the set of tools that was offered, if one was: see `store_offer`.
    """
    if reply.tool_usage is not None:
        write_usage(transition, reply, reply.tool_usage, offer)
    transition.audit(REPLY_KIND, reply.as_detail())
