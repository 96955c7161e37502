"""The --ledger option, and how a command opens the ledger."""

from __future__ import annotations

import asyncio
from argparse import ArgumentParser
from collections.abc import Callable, Coroutine, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

from ferrule.run.ledger.address import Addresses, open_ledger
from ferrule.run.ledger.ledger import Ledger

T = TypeVar("T")


def add_ledger_option(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--ledger",
        action="append",
        required=True,
        metavar="PATH_OR_DSN",
        help="a SQLite file, or postgresql://user@host/database; give all, in their order, if there are several",
    )


def one_or_all(addresses: Sequence[str]) -> Addresses:
    """Return what an option gave: the address itself if it is one."""
    return addresses[0] if len(addresses) == 1 else list(addresses)


def on_ledger(where: Sequence[str], work: Callable[[Ledger], Coroutine[Any, Any, T]]) -> T:
    """Run `work` on the ledger and return its result. The ledger must exist: a mistyped path is an error."""

    async def run() -> T:
        async with await open_ledger(one_or_all(where), must_exist=True) as ledger:
            return await work(ledger)

    return asyncio.run(run())


def moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
