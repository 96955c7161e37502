"""`scripts/long inputs [N]`: N mutated bodies on each API (10,000). None may get status 500, and memory must stay flat.

Every body is new. Memory is read six times, after free memory was given back to the system, because a body of 4 MB
leaves holes. It grows until the caches of the process have used up their budget (`limits.cache_bytes`). In the second
half of the bodies it must not grow any more. `--cache-bytes` makes the budget smaller, for a run with fewer bodies.
"""

import argparse
import asyncio
import ctypes
import gc
import logging
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import Progress

from ferrule.bench.tables import Table, markdown, print_table
from ferrule.core.byte_cache import DEFAULT_BYTES, PROCESS_BUDGET
from lab.inputs.run import Finding, Findings, send_inputs
from lab.inputs.shapes import APIS
from lab.inputs.world import engines
from lab.results_page import publish
from lab.versions import describe_versions

SECTION: Final = "inputs"
HEADING: Final = "Mutated requests"
COUNT: Final = 10_000
_READINGS: Final = 6
_GROWTH: Final = 1.05
"""How much memory may grow in the second half of the bodies, all of them new."""


def resident_bytes() -> int:
    """The memory of this process, as Linux counts it, without what is free."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    for line in Path("/proc/self/status").read_text("utf-8").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


@dataclass(frozen=True, slots=True)
class Reading:
    """Memory after so many bodies: of the process, and of its caches as they estimate it."""

    sent: int
    resident: int
    cached: int

    def __str__(self) -> str:
        return f"{self.resident / 2**20:.0f} MB after {self.sent:,} bodies (caches {self.cached / 2**20:.0f} MB)"


async def _run(count: int, cache_bytes: int) -> tuple[Findings, list[Reading]]:
    total = count * len(APIS)
    marks = {round(total * number / _READINGS) for number in range(1, _READINGS + 1)}
    readings: list[Reading] = []
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("bodies", total=total)

        def on_step(sent: int) -> None:
            progress.advance(task)
            if sent in marks:
                readings.append(Reading(sent, resident_bytes(), PROCESS_BUDGET.size))
                print(readings[-1], file=sys.stderr, flush=True)

        findings = await send_inputs(count, on_step, cache_bytes=cache_bytes)
    return findings, readings


def table_of(findings: Findings) -> Table:
    """How many bodies of each API were answered, refused or failed."""
    rows = [(path, *_row(findings.statuses[path], findings.of(path))) for path in APIS]
    columns = ("API", "bodies", "answered", "refused (4xx)", "engine (502 to 504)", "failed (500)")
    return Table("Answers to mutated bodies", "", columns, rows)


def _row(statuses: Counter[int], failures: list[Finding]) -> tuple[str, ...]:
    refused = sum(count for status, count in statuses.items() if 400 <= status < 500)
    upstream = sum(count for status, count in statuses.items() if status > 500)
    return tuple(map(str, (statuses.total(), statuses[200], refused, upstream, len(failures))))


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/long inputs", description=__doc__)
    parser.add_argument("count", nargs="?", type=int, default=COUNT, help="bodies for each API")
    parser.add_argument("--cache-bytes", type=int, default=DEFAULT_BYTES, help="the budget of all caches together")
    parser.add_argument("--print", action="store_true", help="print only, do not write the page")
    arguments = parser.parse_args()
    # Tools with odd results log what is wrong with them.
    logging.disable(logging.ERROR)
    findings, readings = asyncio.run(_run(arguments.count, arguments.cache_bytes))
    table = table_of(findings)
    print_table(table, Console())
    for finding in findings.failures:
        print(finding, file=sys.stderr)
    sizes = ", ".join(map(str, readings))
    half, end = readings[_READINGS // 2 - 1], readings[-1]
    growth = end.resident / half.resident - 1
    print(f"memory: {sizes}; {growth:+.1%} in the second half")
    later = [reading.resident for reading in readings[_READINGS // 2 - 1 :]]
    is_flat = end.resident <= half.resident * _GROWTH
    is_whole = (arguments.count, arguments.cache_bytes) == (COUNT, DEFAULT_BYTES)
    if is_whole and is_flat and not findings.failures and not arguments.print:
        about = (
            "Bodies in the shapes of real clients (the SDKs of OpenAI and Anthropic, Codex, Claude Code, opencode and "
            "pi), each with one to four mutations, on every format and three chat APIs. The gateway's own tools return "
            "odd values. `scripts/long inputs` repeats it."
        )
        flat = (
            f"Memory of the process, every body new: {sizes}. It changes by {growth:+.1%} from {half.sent:,} to "
            f"{end.sent:,} bodies, and is {min(later) / 2**20:.0f} to {max(later) / 2**20:.0f} MB in between: what is "
            f"freed in pieces goes back to the system only now and then. The caches of {len(engines())} engines share "
            f"one budget (`limits.cache_bytes`, {DEFAULT_BYTES / 2**20:.0f} MB); "
            "compiled grammars are nearly all of it."
        )
        publish(SECTION, HEADING, [about, markdown(table), flat, describe_versions()])
    return 0 if is_flat and not findings.failures else 1


if __name__ == "__main__":
    sys.exit(main())
