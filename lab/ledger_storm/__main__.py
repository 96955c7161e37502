"""Run a storm on Postgres and on SQLite: `scripts/long ledger-storm [KILLS] [FREEZES]`."""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from pathlib import Path

from lab.ledger_storm.page import figures_of, keep, publish_storms
from lab.ledger_storm.processes import end_on_sigterm
from lab.ledger_storm.run import DATABASES, StormSize, report, run_storm


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kills", nargs="?", type=int, default=1000, help="how often a process is killed (1000)")
    parser.add_argument("freezes", nargs="?", type=int, default=100, help="how often one is stopped and woken (100)")
    parser.add_argument("--database", choices=tuple(DATABASES), action="append", help="only this one")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="repeats the choice of victims")
    parser.add_argument("--print", action="store_true", help="publish nothing")
    options = parser.parse_args()
    end_on_sigterm()
    broken = 0
    for database in options.database or DATABASES:
        size = StormSize(kills=options.kills, freezes=options.freezes, seed=options.seed)
        with tempfile.TemporaryDirectory() as folder:
            result = asyncio.run(run_storm(database, size, Path(folder)))
        print(report(database, result), flush=True)
        keep(database, figures_of(result))
        broken += len(result.findings.breaches) + len(result.findings.broken_off)
    if not options.print:
        publish_storms()
    if broken:
        raise SystemExit(f"{broken} breaches")


if __name__ == "__main__":
    main()
