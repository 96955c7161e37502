"""`scripts/long inputs [N]`: N mutated bodies on each API (10,000). None may get status 500, and memory must stay flat.

Memory is read after every 5,000 bodies, after free memory was given back to the system: a body of 4 MB leaves holes.
Memory grows while caches fill with new schemas. So the last bodies are sent again, and then it must not grow any more.
"""

import argparse
import asyncio
import ctypes
import gc
import logging
import sys
from collections import Counter
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import Progress

from ferrule.bench.tables import Table, markdown, print_table
from lab.inputs.run import Finding, Findings, send_inputs
from lab.inputs.shapes import APIS
from lab.inputs.world import engines
from lab.results_page import publish
from lab.versions import describe_versions

SECTION: Final = "inputs"
HEADING: Final = "Mutated requests"
COUNT: Final = 10_000
_EVERY: Final = 5_000
_GROWTH: Final = 1.01
"""How much memory may grow between two replays of bodies that were sent before."""


def resident_bytes() -> int:
    """The memory of this process, as Linux counts it, without what is free."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    for line in Path("/proc/self/status").read_text("utf-8").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


async def _run(count: int) -> tuple[Findings, dict[int, int], list[int]]:
    memory: dict[int, int] = {}
    replayed: list[int] = []
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("bodies", total=count * len(APIS))

        def on_step(sent: int) -> None:
            progress.advance(task)
            if not sent % _EVERY or sent == count * len(APIS):
                memory[sent] = resident_bytes()

        findings = await send_inputs(count, on_step, lambda: replayed.append(resident_bytes()))
    return findings, memory, replayed


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
    parser.add_argument("--print", action="store_true", help="print only, do not write the page")
    arguments = parser.parse_args()
    # Tools with odd results log what is wrong with them.
    logging.disable(logging.ERROR)
    findings, memory, replayed = asyncio.run(_run(arguments.count))
    table = table_of(findings)
    print_table(table, Console())
    for finding in findings.failures:
        print(finding, file=sys.stderr)
    sizes = ", ".join(f"{size / 2**20:.0f} MB after {sent:,}" for sent, size in memory.items())
    again = ", ".join(f"{size / 2**20:.1f} MB" for size in replayed)
    print(f"memory: {sizes} bodies; {again} after replays")
    is_flat = replayed[-1] <= replayed[-2] * _GROWTH
    if arguments.count == COUNT and is_flat and not findings.failures and not arguments.print:
        about = (
            "Bodies in the shapes of real clients (the SDKs of OpenAI and Anthropic, Codex, Claude Code, opencode and "
            "pi), each with one to four mutations, on every format and three chat APIs. The gateway's own tools return "
            "odd values. `scripts/long inputs` repeats it."
        )
        flat = (
            f"Memory of the process: {sizes} bodies. So it is not flat while bodies are new; caches of schemas and "
            f"grammars of {len(engines())} engines are the likely cause, but no run has reached their limits. The last "
            f"3,000 bodies, sent three times more: {again}."
        )
        publish(SECTION, HEADING, [about, markdown(table), flat, describe_versions()])
    return 0 if is_flat and not findings.failures else 1


if __name__ == "__main__":
    sys.exit(main())
