"""Response headers with the receipts of an answer's calls, for clients that do not read the extension."""

from __future__ import annotations

from ferrule.core.reply import Reply

RECEIPTS = "ferrule-receipts"


def answer_headers(reply: Reply) -> dict[str, str]:
    """Return the header with `id=how` for each call, joined by commas; none if there is no call."""
    receipts = [f"{call.id}={call.receipt.how}" for call in reply.calls if call.receipt]
    return {RECEIPTS: ", ".join(receipts)} if receipts else {}
