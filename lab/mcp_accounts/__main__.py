"""Call MCP servers as many principals while everything is killed and restarted: `scripts/long mcp-accounts`."""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from pathlib import Path

from rich.console import Console

from ferrule.bench.tables import print_table
from lab.ledger_storm.processes import end_on_sigterm
from lab.mcp_accounts.page import DATABASES, publish_accounts, table_of
from lab.mcp_accounts.run import Accounts, run_accounts


async def run_all(databases: list[str], seconds: float, folder: Path, seed: int) -> list[Accounts]:
    return list(await asyncio.gather(*(run_accounts(one, seconds, folder / one, seed) for one in databases)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0, help="how long the principals call (20)")
    parser.add_argument("--database", choices=tuple(DATABASES), action="append", help="only this one")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="repeats the choice of moments")
    parser.add_argument("--folder", type=Path, help="keep the logs and the ledger here")
    parser.add_argument("--print", action="store_true", help="publish nothing")
    options = parser.parse_args()
    end_on_sigterm()
    with tempfile.TemporaryDirectory(prefix="ferrule-accounts-") as scratch:
        work = run_all(
            options.database or list(DATABASES), options.minutes * 60, options.folder or Path(scratch), options.seed
        )
        runs = asyncio.run(work)
        table = table_of(runs)
    print_table(table, Console())
    breaches = [f"{run.database}: {one}" for run in runs for one in run.breaches]
    for one in breaches:
        print(one)
    for run in runs:
        print(run.database, dict(run.counts), dict(run.errors), {name: round(gap) for name, gap in run.gaps.items()})
        for message, count in run.messages.most_common():
            print(f"{count:5} {message}")
    if not options.print:
        publish_accounts(table)
    if breaches:
        raise SystemExit(f"{len(breaches)} breaches")


if __name__ == "__main__":
    main()
