"""The --ledger option, and how a command opens the ledger."""

from __future__ import annotations

import asyncio
from argparse import ArgumentParser
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any, TypeVar

from ferrule.run.ledger.address import open_ledger
from ferrule.run.ledger.ledger import Ledger

T = TypeVar("T")


def add_ledger_option(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--ledger", required=True, metavar="PATH_OR_DSN", help="a SQLite file, or postgresql://user@host/database"
    )


def on_ledger(where: str, work: Callable[[Ledger], Coroutine[Any, Any, T]]) -> T:
    """Run `work` on the ledger and return its result. The ledger must exist: a mistyped path is an error."""

    async def run() -> T:
        async with await open_ledger(where, must_exist=True) as ledger:
            return await work(ledger)

    return asyncio.run(run())


def moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
