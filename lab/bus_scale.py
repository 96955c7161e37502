"""Measure the bus with many workers: `scripts/bench-bus looks` and `scripts/bench-bus slots`.

`looks` counts the bytes that cross the caller's socket when it looks which tools the workers serve: the first time, and
again when nothing has changed. `slots` counts which of two workers runs the calls, one five times slower than the
other, and how many calls end as busy. Both use only what every version of the bus has, so that two checkouts can be
compared.
"""

import argparse
import asyncio
import shlex
import sys
import time
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Final

from rich.console import Console

from ferrule.bench.tables import Table, markdown, print_table
from ferrule.core.context import CallContext
from ferrule.core.outcome import Answered, NotDelivered
from ferrule.core.tool import ToolDefinition
from ferrule.sources.bus.bus import Bus
from ferrule.sources.bus.connection import Connection
from ferrule.sources.bus.subject import changes_subject
from ferrule.sources.bus.token import LOCAL
from ferrule.sources.bus.worker import Worker
from ferrule.sources.fake import FakeSource
from lab.bus_costs import describe_run, worker
from lab.bus_server import nats_server
from lab.bus_workers import KEY, QUICK_SECONDS, SLOW_SECONDS
from lab.results_page import publish

_SCRIPT: Final = "scripts/bench-bus"
_PARAMETERS: Final = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
_PAUSE: Final = 0.3


@dataclass(slots=True)
class Traffic:
    """Bytes that crossed a proxy, in both directions together."""

    bytes: int = 0


@asynccontextmanager
async def counting_proxy(port: int, traffic: Traffic) -> AsyncGenerator[str]:
    """The URL of a proxy in front of a nats-server. It counts every byte that passes."""

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 20):
            traffic.bytes += len(data)
            writer.write(data)
            await writer.drain()
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(copy(reader, inner_writer), copy(inner_reader, writer), return_exceptions=True)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


async def measure_looks(capabilities: int, workers: int, looks: int) -> tuple[int, int, float]:
    """Bytes of the first look, bytes of a look that finds nothing new, and seconds of the latter."""
    tools = [ToolDefinition(f"tool_{number}", "x" * 80, _PARAMETERS) for number in range(capabilities)]
    traffic = Traffic()
    async with AsyncExitStack() as stack:
        server = stack.enter_context(nats_server())
        url = await stack.enter_async_context(counting_proxy(server.port, traffic))
        for _ in range(workers):
            await stack.enter_async_context(Worker(FakeSource(tools), server.url, server="bench", key=KEY))
        announcer = Connection(server.url)
        await announcer.open()
        stack.push_async_callback(announcer.close)
        bus = await stack.enter_async_context(Bus(url, key=KEY))
        # What the workers announced when they started.
        await asyncio.sleep(_PAUSE)
        traffic.bytes = 0
        assert len(await bus.tools()) == capabilities
        first, traffic.bytes = traffic.bytes, 0
        seconds = 0.0
        for _ in range(looks):
            # An announcement without news makes the list stale.
            await announcer.send(changes_subject(LOCAL))
            await announcer.flush()
            await asyncio.sleep(_PAUSE)
            started = time.monotonic()
            assert len(await bus.tools()) == capabilities
            seconds += time.monotonic() - started
        return first, round(traffic.bytes / looks), seconds / looks


async def measure_slots(callers: int, calls: int) -> tuple[Counter[str], float]:
    """Who answered the calls, or "busy", and the seconds of all calls."""
    answers: Counter[str] = Counter()
    with ExitStack() as stack:
        url = stack.enter_context(nats_server()).url
        for kind in ("quick", "slow"):
            stack.enter_context(worker(kind, url))
        async with Bus(url, key=KEY) as bus:
            await bus.tools()
            remaining = iter(range(calls))

            async def keep_calling() -> None:
                for _ in remaining:
                    match await bus.call("who", {}, CallContext()):
                        case Answered(content, False):
                            answers[str(content)] += 1
                        case NotDelivered(code="busy"):
                            answers["busy"] += 1
                        case other:
                            raise AssertionError(other)

            started = time.monotonic()
            await asyncio.gather(*(keep_calling() for _ in range(callers)))
            return answers, time.monotonic() - started


def looks_table(sizes: list[tuple[int, int]], looks: int) -> Table:
    rows: list[tuple[str, ...]] = []
    for capabilities, workers in sizes:
        first, again, seconds = asyncio.run(measure_looks(capabilities, workers, looks))
        per_worker = f"{again / workers:,.0f}"
        rows.append((f"{capabilities:,}", f"{workers:,}", f"{first:,}", f"{again:,}", per_worker, f"{seconds:.2f}"))
    return Table(
        "Bytes of a look",
        "Bytes on the caller's socket in both directions, with the lines of the NATS protocol. Every worker serves the "
        "same tools. A look is made when the list of tools is older than five seconds, or a worker announces a change.",
        ("capabilities", "workers", "first look", "unchanged", "per worker", "seconds"),
        rows,
    )


def slots_table(widths: list[int], calls: int) -> Table:
    rows: list[tuple[str, ...]] = []
    for width in widths:
        answers, seconds = asyncio.run(measure_slots(width, calls))
        answered = answers["quick"] + answers["slow"]
        slow, busy = answers["slow"] / max(1, answered), answers["busy"] / answers.total()
        rows.append((str(width), f"{1 - slow:.0%}", f"{slow:.0%}", f"{busy:.1%}", f"{answered / seconds:,.0f}"))
    return Table(
        "Two workers, one five times slower",
        f"{calls:,} calls; the tools take {QUICK_SECONDS * 1000:g} and {SLOW_SECONDS * 1000:g} milliseconds, and each "
        "worker takes 16 calls at once. The first two shares are of the answered calls.",
        ("callers", "quick", "slow", "busy", "answers/s"),
        rows,
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog=_SCRIPT, description=__doc__)
    parser.add_argument("what", choices=("looks", "slots"))
    parser.add_argument("--calls", type=int, default=4_000)
    parser.add_argument("--looks", type=int, default=3)
    parser.add_argument("--dry", action="store_true", help="do not write the page")
    arguments = parser.parse_args()
    if arguments.what == "looks":
        sizes = [(capabilities, workers) for capabilities in (10, 100, 1_000) for workers in (1, 10, 100)]
        title, table = "Looking for tools on the bus", looks_table(sizes, arguments.looks)
    else:
        title, table = "Which worker gets a call", slots_table([16, 64, 128], arguments.calls)
    # A file or a pipe has no width of its own, and a narrow table loses its figures.
    print_table(table, Console(width=None if sys.stdout.isatty() else 140))
    if not arguments.dry:
        command = f"```sh\n{shlex.join([_SCRIPT, *sys.argv[1:]])}\n```"
        publish(f"bus-{arguments.what}", title, [command, describe_run(), markdown(table)])


if __name__ == "__main__":
    main()
