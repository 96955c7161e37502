"""Run gateways through a day of operations under load: `scripts/long operate [--seconds N] [--rate N]`."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import uvloop

from lab.ledger_storm.processes import end_on_sigterm
from lab.operate.page import publish_day
from lab.operate.run import DaySize, report, run_day


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600, help="how long requests are sent, at least (600)")
    parser.add_argument("--rate", type=float, default=200, help="how many requests a second (200)")
    parser.add_argument("--without-envoy", action="store_true", help="send requests to the gateways in turn")
    parser.add_argument("--print", action="store_true", help="publish nothing")
    options = parser.parse_args()
    end_on_sigterm()
    size = DaySize(seconds=options.seconds, rate=options.rate, has_envoy=not options.without_envoy)
    with tempfile.TemporaryDirectory() as folder:
        result = uvloop.run(run_day(size, Path(folder)))
    print(report(result), flush=True)
    if not options.print:
        publish_day(result)
    if result.findings.breaches:
        raise SystemExit(f"{len(result.findings.breaches)} breaches")


if __name__ == "__main__":
    main()
