"""Measure a source of many MCP servers, and what a storm does to it: `scripts/long mcp-servers`.

Fifty servers on stdio, each a process with the SDK and forty tools. All are opened, listed again and again, and then
killed at once. With another checkout (`--before`), the same is measured with its code.
"""

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from ferrule.bench.tables import Table, markdown, print_table
from ferrule.sources.mcp.config import Server, StdioTransport, Timeouts
from ferrule.sources.mcp.server_connection import ConnectionOptions, ServerConnection
from ferrule.sources.mcp.servers import McpServers
from ferrule.sources.status import SourceState
from lab.environment import describe_environment, measured_environment
from lab.paths import ROOT
from lab.process_cost import own_cpu
from lab.results_page import publish

_COMMAND: Final = "```sh\nscripts/long mcp-servers --before ../before\n```"
_ROUNDS: Final = 5
_QUIET_SECONDS: Final = 10.0
_ABOUT: Final = (
    "Each server is a process with the MCP SDK, on stdio. *Open*: seconds from the start until all tools are offered; "
    "a server's own start takes about 2 s of CPU, for the SDK. *Round*: every server's list is read once "
    "and is unchanged; CPU milliseconds of Ferrule's process, without the servers, the median of the rounds. "
    "*Look*: what one `tools()` costs when nothing has changed. *Storm*: SIGKILL to all servers at once; *starts* are "
    "processes that Ferrule starts, and *burst* is the largest number in any second. *Settled*: seconds until all "
    "servers are ready, and none was started a second time."
)


@dataclass(frozen=True, slots=True)
class Measurement:
    """What was measured with so many servers."""

    servers: int
    tools: int
    open_seconds: float
    round_cpu: float
    look_cpu: float
    starts: int
    burst: int
    settled_seconds: float

    def row(self, version: str) -> tuple[str, ...]:
        seconds = (f"{self.open_seconds:.1f}", f"{self.round_cpu * 1000:.0f}", f"{self.look_cpu * 1e6:.0f}")
        return (
            version,
            f"{self.servers:,}",
            f"{self.tools:,}",
            *seconds,
            str(self.starts),
            str(self.burst),
            f"{self.settled_seconds:.1f}",
        )


def largest_burst(moments: list[float], seconds: float = 1.0) -> int:
    """The largest number of moments in any half-open window of so many seconds."""
    ordered = sorted(moments)
    return max((sum(start <= one < start + seconds for one in ordered) for start in ordered), default=0)


def start_times(pids: set[int]) -> dict[int, float]:
    """When the kernel started each process, in seconds since boot; processes that have ended are left out."""
    ticks = os.sysconf("SC_CLK_TCK")
    found: dict[int, float] = {}
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        found[pid] = int(fields[19]) / ticks
    return found


def children() -> set[int]:
    """The child processes of this process."""
    return {int(pid) for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()}


def servers_of(count: int, tools: int) -> list[Server]:
    module = ("-m", "lab.mcp_many_tools_server")
    return [
        Server(
            f"s{number}",
            StdioTransport(sys.executable, (*module, f"s{number}", str(tools)), cwd=str(ROOT)),
            timeouts=Timeouts(connect=300.0, list=300.0),
        )
        for number in range(count)
    ]


async def _until(claim: Callable[[], bool], note: Callable[[], object] = lambda: None, patience: float = 600.0) -> None:
    async with asyncio.timeout(patience):
        while not claim():
            note()
            await asyncio.sleep(0.02)


async def measure(count: int, tools: int) -> Measurement:
    options = ConnectionOptions(refresh=3600.0)
    source = McpServers(servers_of(count, tools), options=options, settle_seconds=600.0)
    began = time.monotonic()
    async with source:
        offered = await source.tools()
        open_seconds = time.monotonic() - began
        assert len(offered) == count * tools, source.notices
        rounds = [await _listing_round(source) for _ in range(_ROUNDS)]
        looks_began = own_cpu(os.getpid())
        for _ in range(1000):
            await source.tools()
        look = (own_cpu(os.getpid()) - looks_began) / 1000
        starts, settled = await _storm(source, count)
    assert not children(), "a server outlived its source"
    round_cpu = sorted(rounds)[len(rounds) // 2]
    return Measurement(count, count * tools, open_seconds, round_cpu, look, len(starts), largest_burst(starts), settled)


async def _listing_round(source: McpServers) -> float:
    """Let every connection read its list once, as it does when its time has come or the server reports a change."""
    before = own_cpu(os.getpid())
    # The connections are private: their own rounds begin at times of their own. Their sessions were too, before.
    connections = source._connections  # pyright: ignore[reportPrivateUsage]
    sessions: list[Any] = [
        one.session if hasattr(one, "session") else getattr(one, "_session")  # noqa: B009
        for one in connections
        if isinstance(one, ServerConnection)
    ]
    assert len(sessions) == len(connections)
    assert None not in sessions
    await asyncio.gather(*(session.tools() for session in sessions))
    await source.tools()
    return own_cpu(os.getpid()) - before


async def _storm(source: McpServers, count: int) -> tuple[list[float], float]:
    """Kill all servers. Returns when each new process was started, and how long it took until all were ready."""
    old = children()
    assert len(old) == count
    seen: dict[int, float] = {}

    def note() -> None:
        seen.update(start_times(children() - old - set(seen)))

    began = time.monotonic()
    for pid in old:
        os.kill(pid, signal.SIGKILL)
    await _until(lambda: any(one.state is not SourceState.READY for one in source.statuses))
    await _until(lambda: all(one.state is SourceState.READY for one in source.statuses), note)
    settled = time.monotonic() - began
    # Nothing comes after it.
    ends = time.monotonic() + _QUIET_SECONDS
    await _until(lambda: time.monotonic() > ends, note)
    assert all(one.state is SourceState.READY for one in source.statuses)
    assert len(await source.tools()) > 0
    return list(seen.values()), settled


def measure_checkout(checkout: Path, count: int, tools: int) -> Measurement:
    """Measure the code of another checkout, in a process of its own."""
    command = [sys.executable, "-m", "lab.mcp_servers", "--servers", str(count), "--tools", str(tools), "--json"]
    environment = {**os.environ, "PYTHONPATH": f"{checkout.resolve() / 'src'}{os.pathsep}{ROOT}"}
    process = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, check=True, text=True)
    return Measurement(**json.loads(process.stdout.splitlines()[-1]))


def table_of(measurements: list[tuple[str, Measurement]]) -> Table:
    headings = (
        "version",
        "servers",
        "tools",
        "open, s",
        "round, CPU ms",
        "look, CPU µs",
        "starts",
        "burst, a second",
        "settled, s",
    )
    return Table("Many servers, and a storm", _ABOUT, headings, [one.row(version) for version, one in measurements])


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/long mcp-servers", description=__doc__)
    parser.add_argument("--servers", type=int, nargs="*", default=[50], help="how many servers (50)")
    parser.add_argument("--tools", type=int, default=40, help="how many tools each has (40)")
    parser.add_argument("--before", type=Path, help="another checkout, measured too")
    parser.add_argument("--json", action="store_true", help="print only the figures, of the code that is imported")
    parser.add_argument("--print", action="store_true", help="print the table, and publish nothing")
    arguments = parser.parse_args()
    measurements: list[tuple[str, Measurement]] = []
    for count in arguments.servers:
        if arguments.before is not None:
            measurements.append(("before", measure_checkout(arguments.before, count, arguments.tools)))
        measurements.append(("after", asyncio.run(measure(count, arguments.tools))))
    if arguments.json:
        for _, one in measurements:
            print(json.dumps(asdict(one)))
        return
    table = table_of(measurements)
    print_table(table, Console())
    if not arguments.print:
        about = describe_environment(measured_environment())
        publish("mcp-servers", "Many MCP servers", [_COMMAND, about, markdown(table)])


if __name__ == "__main__":
    main()
