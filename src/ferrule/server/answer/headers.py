"""What an answer's headers say of its calls: how each was guaranteed, for who cannot read the extension."""

from __future__ import annotations

from ferrule.core.reply import Reply

RECEIPTS = "ferrule-receipts"


def answer_headers(reply: Reply) -> dict[str, str]:
    """`id=how` for each call, joined by commas; none where nothing was called."""
    told = [f"{call.id}={call.receipt.how}" for call in reply.calls if call.receipt]
    return {RECEIPTS: ", ".join(told)} if told else {}
