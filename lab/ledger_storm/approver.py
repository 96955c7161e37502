"""A process that decides on every call that waits for approval. What it decides is a function of the call."""

from __future__ import annotations

import asyncio
import json
from typing import Final

import ferrule.ledger
from ferrule.errors import ApprovalError, LedgerUnavailableError
from ferrule.ledger import ApprovalState, Ledger
from lab.ledger_storm.script import is_denied, now

_PAUSE: Final = 0.1


def run_approver(ledger: str) -> None:
    """Run until the process is killed."""
    asyncio.run(_decide_all(ledger))


async def _decide_all(address: str) -> None:
    while True:
        try:
            async with ferrule.ledger.open(address) as ledger:
                while True:
                    await _decide_pending(ledger)
                    await asyncio.sleep(_PAUSE)
        except LedgerUnavailableError:
            await asyncio.sleep(_PAUSE)


async def _decide_pending(ledger: Ledger) -> None:
    for approval in await ledger.approvals(ApprovalState.PENDING):
        item = json.loads(approval.arguments)["item"]
        try:
            if is_denied(item):
                await ledger.deny(approval.id, "bob", "not this one", now=now())
            else:
                await ledger.approve(approval.id, "bob", now=now())
        except ApprovalError:
            # It was decided or replaced in the meantime.
            continue
