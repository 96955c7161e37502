"""Measure what the gateway costs, compared with the upstream itself and LiteLLM's proxy: `scripts/bench-gateway`.

All alternate in one run. CPU is what the kernel counted for each gateway's processes, so a busy machine changes the
latency but not the cost.
"""

import argparse
import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from typing import Final

from rich.console import Console

from ferrule.bench.tables import Table, markdown, print_table
from lab.environment import describe_environment, measured_environment
from lab.gateway_load import Load, LoadRequest, p50, p99
from lab.gateway_peers import Peer, ferrule_chat, ferrule_text, litellm, upstream
from lab.process_cost import cost_of
from lab.results_page import publish

_SECTION: Final = "gateway-costs"
_COMMAND: Final = "```sh\nscripts/setup-litellm\nscripts/bench-gateway\n```"
_PACE: Final = 500
"""Milliseconds between two events of the streams that are held open."""
_MICRO: Final = 1e6
_ALONE: Final = (
    "The target of 80 µs per event is met if events arrive together (above) and missed here: each event arrives alone "
    "and pays for two wake-ups, a read and a write, and for memory that is no longer in the CPU cache."
)
Started = Callable[[str, int], AbstractContextManager[Peer]]
PEERS: Final[dict[str, Started]] = {"chat": ferrule_chat, "text": ferrule_text, "litellm": litellm}


@dataclass(slots=True)
class PeerCosts:
    name: str
    low: list[float] = field(default_factory=list[float])
    """Seconds of sequential requests."""
    request_cpu: float = 0.0
    rate: float = 0.0
    event_cpu: dict[str, float] = field(default_factory=dict[str, float])


async def measure(peers: list[Peer], rounds: int) -> list[PeerCosts]:
    """Measure everything except the held streams; the peers alternate."""
    rows = {peer.name: PeerCosts(peer.name) for peer in peers}
    async with Load() as load:
        for peer in peers:
            await load.many(LoadRequest(peer.url, is_streamed=False), 50, 4)
        for _ in range(rounds):
            for peer in peers:
                rows[peer.name].low += [
                    (await load.once(LoadRequest(peer.url, is_streamed=False)))[0] for _ in range(10)
                ]
        for peer in peers:
            row = rows[peer.name]
            before = cost_of(peer.pid)
            seconds, each = await load.many(LoadRequest(peer.url, is_streamed=False), rounds * 40, 16)
            cpu = cost_of(peer.pid).since(before).cpu
            row.request_cpu, row.rate = cpu / len(each), len(each) / max(cpu, 1e-9)
            for kind, has_tool in (("text", False), ("call", True)):
                row.event_cpu[kind] = await _per_event(load, peer, has_tool, rounds)
            assert seconds
    return list(rows.values())


async def _per_event(load: Load, peer: Peer, has_tool: bool, rounds: int) -> float:
    """CPU per additional event: the difference between long and short streams, which cancels the cost of a request."""
    samples: list[tuple[float, int]] = []
    for events in (10, 210):
        before = cost_of(peer.pid)
        await load.many(LoadRequest(peer.url, events, has_tool), rounds * 4, 8)
        samples.append((cost_of(peer.pid).since(before).cpu, events * rounds * 4))
    (less, few), (more, many) = samples
    return (more - less) / (many - few)


@dataclass(frozen=True, slots=True)
class HeldStreams:
    name: str
    streams: int
    failed: int
    events: int
    cpu: float
    resident: tuple[int, ...]
    seconds: float

    @property
    def growth(self) -> float:
        """Resident bytes at the end divided by those when all streams had just been opened."""
        third = self.resident[len(self.resident) // 3]
        return self.resident[-1] / max(third, 1)


async def hold_streams(peer: Peer, streams: int, events: int) -> HeldStreams:
    resident: list[int] = []
    async with Load() as load:
        before = cost_of(peer.pid)
        received, failed, seconds = await load.hold_streams(
            LoadRequest(peer.url, events), streams, streams / 8, lambda: resident.append(cost_of(peer.pid).resident)
        )
        cpu = cost_of(peer.pid).since(before).cpu
    return HeldStreams(peer.name, streams, failed, received, cpu, tuple(resident), p50(seconds) if seconds else 0.0)


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/bench-gateway", description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--streams", type=int, default=2000)
    parser.add_argument("--events", type=int, default=60, help="events of a held stream, two per second")
    parser.add_argument("--without", action="append", default=[], choices=tuple(PEERS))
    parser.add_argument("--dry", action="store_true", help="write nothing to the page")
    arguments = parser.parse_args()
    peers_to_start = {name: start for name, start in PEERS.items() if name not in arguments.without}
    console = Console()
    with ExitStack() as stack:
        url, pid = stack.enter_context(upstream())
        direct = Peer("the upstream itself", f"{url}/0/v1", pid)
        peers = [direct, *(stack.enter_context(start(url, 0)) for start in peers_to_start.values())]
        rows = asyncio.run(measure(peers, arguments.rounds))
    held_streams: list[HeldStreams] = []
    for start in peers_to_start.values():
        with upstream() as (url, _), start(url, _PACE) as peer:
            held_streams.append(asyncio.run(hold_streams(peer, arguments.streams, arguments.events)))
            console.print(f"{peer.name}: held")
    tables = [_costs(rows), _streams(held_streams, arguments)]
    for table in tables:
        print_table(table, console)
    if not arguments.dry:
        environment = describe_environment(measured_environment())
        publish(_SECTION, "What the gateway costs", [_COMMAND, environment, *(markdown(one) for one in tables)])


def _costs(rows: list[PeerCosts]) -> Table:
    base = rows[0].low
    return Table(
        "One request, one event",
        "Added time is relative to the upstream itself, one request at a time, in one run. CPU is of the gateway's "
        "own processes. Requests are not streamed and have eight events; an event's cost is the difference between "
        "long and short streams. `call` streams the arguments of a tool call, which Ferrule parses, checks and writes "
        "again; in front of a chat API it buffers them until they are validated, so they are sent at once.",
        (
            "",
            "added p50, ms",
            "added p99, ms",
            "CPU per request, ms",
            "requests per core and second",
            "CPU per text event, µs",
            "CPU per call event, µs",
        ),
        [
            (
                row.name,
                f"{(p50(row.low) - p50(base)) * 1000:.2f}",
                f"{(p99(row.low) - p99(base)) * 1000:.2f}",
                f"{row.request_cpu * 1000:.2f}",
                f"{row.rate:.0f}",
                f"{row.event_cpu['text'] * _MICRO:.0f}",
                f"{row.event_cpu['call'] * _MICRO:.0f}",
            )
            for row in rows
        ],
    )


def _streams(held_streams: list[HeldStreams], arguments: argparse.Namespace) -> Table:
    return Table(
        f"{arguments.streams} streams at once",
        f"Each of {arguments.events} events, one every {_PACE} ms, opened over eight seconds. Growth is resident "
        "memory at the end divided by that at a third of the run.",
        ("", "failed", "events", "CPU per event, µs", "resident max, MB", "growth", "median seconds"),
        [
            (
                one.name,
                str(one.failed),
                str(one.events),
                f"{one.cpu / max(one.events, 1) * _MICRO:.0f}",
                f"{max(one.resident) / 1e6:.0f}",
                f"{one.growth:.2f}",
                f"{one.seconds:.1f}",
            )
            for one in held_streams
        ],
        [_ALONE],
    )


if __name__ == "__main__":
    main()
