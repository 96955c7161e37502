"""Restart Postgres and fail over to a standby under load: `scripts/long failover [RESTARTS]`."""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from pathlib import Path

from lab.failover.run import FRONTS, FailoverSize, report, run_failover
from lab.ledger_storm.processes import end_on_sigterm


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("restarts", nargs="?", type=int, default=3, help="restarts before each failover (3)")
    parser.add_argument("--failovers", type=int, default=10, help="how often all of it is done, each time anew (10)")
    parser.add_argument("--answers", type=int, default=40, help="answers between two events (40)")
    parser.add_argument("--front", choices=tuple(FRONTS), default="forwarder", help="what stands before Postgres")
    options = parser.parse_args()
    end_on_sigterm()
    size = FailoverSize(restarts=options.restarts, answers=options.answers, clients=6)
    broken = 0
    for _ in range(options.failovers):
        with tempfile.TemporaryDirectory() as folder:
            result = asyncio.run(run_failover(options.front, size, Path(folder)))
        print(report(options.front, result), flush=True)
        findings = result.failover.findings
        broken += len(findings.breaches) + len(findings.broken_off)
    if broken:
        raise SystemExit(f"{broken} breaches")


if __name__ == "__main__":
    main()
