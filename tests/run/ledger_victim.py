"""A process that runs one call with the ledger and is killed at a given point: `ledger_victim.py ADDRESS FILE POINT`.

If the ledger has an approval it redeems it. The effect is a line in the file.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ferrule.core.outcome import Answered
from ferrule.run.ledger import calls
from ferrule.run.ledger.address import open_ledger
from ferrule.run.ledger.claim import Claim
from run.ledger_databases import address_of

POINT = sys.argv[3]


def die_at(point: str) -> None:
    if point == POINT:
        os.kill(os.getpid(), signal.SIGKILL)


def die_inside(real: Callable[..., Any], point: str) -> Callable[..., Any]:
    """Return the same transaction, in which the process dies after all statements and before the commit."""

    def transaction(*arguments: Any) -> Any:
        result = yield from real(*arguments)
        die_at(point)
        return result

    return transaction


async def main(address: str | list[str], effect: Path) -> None:
    async with await open_ledger(address) as ledger:
        claim = Claim("c", "k", "acme", "ann", "pay", "f1", b'{"amount":3}')
        approvals = [one.id for one in await ledger.approvals()]
        won = await ledger.start(claim, 1, approval=approvals[0] if approvals else "", now=2)
        die_at("started")
        if won:
            with effect.open("a") as file:
                file.write("pa")
                file.flush()
                die_at("within the effect")
                file.write("id\n")
        die_at("effect made")
        await ledger.finish("c", "k", 1, Answered("paid"), now=3)
        die_at("finished")


if __name__ == "__main__":
    calls.start = die_inside(calls.start, "before start commits")
    calls.finish = die_inside(calls.finish, "before finish commits")
    asyncio.run(main(address_of(sys.argv[1]), Path(sys.argv[2])))
