"""A process that does one call by the ledger and is killed at a given point: `ledger_victim.py WHERE FILE POINT`.

With leave asked for beforehand it redeems it. The effect is a line in the file.
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
from ferrule.run.ledger.address import ledger_at
from ferrule.run.ledger.claim import Claim

POINT = sys.argv[3]


def dies_at(point: str) -> None:
    if point == POINT:
        os.kill(os.getpid(), signal.SIGKILL)


def dying_inside(real: Callable[..., Any], point: str) -> Callable[..., Any]:
    """The same work, whose process dies with every statement made and nothing committed."""

    def work(*arguments: Any) -> Any:
        result = yield from real(*arguments)
        dies_at(point)
        return result

    return work


async def main(where: str, effect: Path) -> None:
    async with await ledger_at(where) as ledger:
        claim = Claim("c", "k", "acme", "ann", "pay", "f1", b'{"amount":3}')
        given = [one.id for one in await ledger.approvals()]
        won = await ledger.start(claim, 1, approval=given[0] if given else "", now=2)
        dies_at("started")
        if won:
            with effect.open("a") as file:
                file.write("pa")
                file.flush()
                dies_at("within the effect")
                file.write("id\n")
        dies_at("effect made")
        await ledger.finish("c", "k", 1, Answered("paid"), now=3)
        dies_at("finished")


if __name__ == "__main__":
    calls.started = dying_inside(calls.started, "before start commits")
    calls.finished = dying_inside(calls.finished, "before finish commits")
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
