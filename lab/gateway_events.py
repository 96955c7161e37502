"""Measure what an event costs that comes alone: `scripts/bench-gateway --alone`.

Many streams are open, and each gets an event now and then, so that no two can be read or written together. The CPU of
the gateway's process is counted while all streams are open: without opening and closing them. Beside it are two relays
that do the same reads and writes with nothing in between.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from rich.console import Console

from ferrule.bench.tables import Table, markdown, print_table
from lab.environment import describe_environment, measured_environment
from lab.gateway_peers import Peer, ferrule_chat, ferrule_text, upstream
from lab.paths import ROOT
from lab.process_cost import own_cpu
from lab.results_page import publish
from lab.servers import end_group, free_port

_SECTION: Final = "gateway-events"
_COMMAND: Final = "```sh\nscripts/bench-gateway --alone\n```"
_RELAY: Final = Path(__file__).with_name("relay.py")
_PACE: Final = "~500"
_STREAMS: Final = (250, 500, 1000, 2000)
_EVENTS: Final = 20_000
"""More than a stream gets before it is closed."""
_OPENED_AT_ONCE: Final = 64
_PAUSE_SECONDS: Final = 0.1
_SETTLE_SECONDS: Final = 1.5
_SLICE_SECONDS: Final = 1.0
_MICRO: Final = 1e6
_NOTE: Final = (
    "Streams have the same pace, so fewer of them are fewer events in a second, and more of these wake a process that "
    "sleeps. An event of the bare relay costs more then, too."
)


class _Stream(asyncio.Protocol):
    """One streamed request, which counts the events that arrive."""

    def __init__(self, request: bytes, load: "StreamLoad") -> None:
        self._request = request
        self._load = load
        self._is_open = False
        self.has_begun = asyncio.get_running_loop().create_future()
        self.transport: asyncio.BaseTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        assert isinstance(transport, asyncio.WriteTransport)
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        if not self._is_open:
            self._is_open = data.startswith(b"HTTP/1.1 200 ")
            if not self._is_open and not self.has_begun.done():
                self.has_begun.set_exception(ConnectionError(f"a stream was refused: {data[:200]!r}"))
        count = data.count(b"data: ")
        self._load.events += count
        if count and not self.has_begun.done():
            self.has_begun.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._load.lost += 1
        if not self.has_begun.done():
            self.has_begun.set_exception(ConnectionError("a stream ended before its first event"))


@dataclass(slots=True)
class StreamLoad:
    """Streams that are held open on one server."""

    url: str
    events: int = 0
    lost: int = 0
    _streams: list[_Stream] = field(default_factory=list[_Stream])

    async def open(self, count: int) -> None:
        """Open so many streams, and wait for the first event of each."""
        target = urlsplit(self.url)
        host, port = target.hostname or "", target.port or 80
        body = {"model": "m", "messages": [{"role": "user", "content": "Hello."}], "stream": True}
        data = json.dumps({**body, "max_tokens": _EVENTS}).encode()
        head = f"POST {target.path}/chat/completions HTTP/1.1\r\nhost: {target.netloc}\r\n"
        fields = f"content-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n"
        request = (head + fields).encode() + data
        loop = asyncio.get_running_loop()
        for start in range(0, count, _OPENED_AT_ONCE):
            for _ in range(min(_OPENED_AT_ONCE, count - start)):
                opened = await loop.create_connection(lambda: _Stream(request, self), host, port)
                self._streams.append(opened[1])
            await asyncio.sleep(_PAUSE_SECONDS)
        await asyncio.gather(*(stream.has_begun for stream in self._streams))

    async def close(self) -> None:
        for stream in self._streams:
            if stream.transport is not None:
                stream.transport.close()
        while self.lost < len(self._streams):
            await asyncio.sleep(0.05)


@contextmanager
def relay(name: str, kind: str, upstream_url: str) -> Generator[Peer]:
    port = free_port()
    command = [sys.executable, str(_RELAY), str(port), str(urlsplit(upstream_url).port), kind]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield Peer(name, f"http://127.0.0.1:{port}/{_PACE}/v1", process.pid)
        finally:
            end_group(process)


def _control(upstream_url: str, command: str) -> None:
    urllib.request.urlopen(f"{upstream_url}/{command}").close()


async def event_cost(upstream_url: str, peer: Peer, streams: int, seconds: float, *, is_held: bool = True) -> float:
    """The CPU seconds of one event while so many streams are open: the least of several slices of time."""
    load = StreamLoad(peer.url)
    try:
        if is_held:
            await asyncio.to_thread(_control, upstream_url, "stop")
        await load.open(streams)
        await asyncio.to_thread(_control, upstream_url, "start")
        # The streams that were held go together; after some intervals their events come at random times.
        await asyncio.sleep(_SETTLE_SECONDS)
        costs: list[float] = []
        for _ in range(max(1, round(seconds / _SLICE_SECONDS))):
            events, cpu = load.events, own_cpu(peer.pid)
            await asyncio.sleep(_SLICE_SECONDS)
            events, cpu = load.events - events, own_cpu(peer.pid) - cpu
            costs.append(cpu / max(events, 1))
        if load.lost:
            raise RuntimeError(f"{peer.name} closed {load.lost} of {streams} streams")
        return min(costs)
    finally:
        await asyncio.to_thread(_control, upstream_url, "stop")
        await load.close()
        await asyncio.to_thread(_control, upstream_url, "start")


def measure(
    upstream_url: str,
    peers: Sequence[Peer],
    streams: Sequence[int],
    rounds: int,
    seconds: float,
    on_cost: Callable[[str], None],
) -> dict[str, dict[int, float]]:
    """The least cost of an event of each peer and number of streams. The peers take turns."""
    costs: dict[str, dict[int, float]] = {peer.name: {} for peer in peers}
    for peer in peers:
        # An engine asks its server what it can do before its first request.
        asyncio.run(event_cost(upstream_url, peer, 1, 1.0, is_held=False))
    for count in streams:
        for _ in range(rounds):
            for peer in peers:
                cost = asyncio.run(event_cost(upstream_url, peer, count, seconds))
                costs[peer.name][count] = min(cost, costs[peer.name].get(count, cost))
                on_cost(f"{count} streams, {peer.name}: {cost * _MICRO:.0f} µs")
    return costs


def _peers(stack: ExitStack, url: str, before: Path | None) -> list[Peer]:
    peers = [
        stack.enter_context(relay("a bare relay", "bare", url)),
        stack.enter_context(relay("a relay that parses and writes JSON", "json", url)),
    ]
    checkouts = {"": ROOT, **({" (before)": before} if before else {})}
    for label, checkout in checkouts.items():
        for start in (ferrule_chat, ferrule_text):
            peer = stack.enter_context(start(url, _PACE, {"PYTHONPATH": str(checkout / "src")}))
            peers.append(Peer(peer.name + label, peer.url, peer.pid))
    return peers


def _table(costs: dict[str, dict[int, float]], rounds: int, seconds: float) -> Table:
    bare = next(iter(costs.values()))
    streams = list(bare)
    return Table(
        "One event that comes alone",
        f"Microseconds of CPU of the process, per event. Each stream gets an event every {_PACE[1:]} ms on average, at "
        "random times. Counted while all streams are open, for a second at a time; the smallest of "
        f"{rounds * round(seconds)} seconds (rounds: {rounds}). The programs took turns. The relays read one "
        "socket and write another, on the same event loop (uvloop), without limits, keys or checks.",
        ("", *(f"{count} streams" for count in streams), f"over the bare relay, {streams[-1]} streams"),
        [
            (
                name,
                *(f"{cost * _MICRO:.0f}" for cost in row.values()),
                f"{row[streams[-1]] / bare[streams[-1]]:.1f}",
            )
            for name, row in costs.items()
        ],
        [_NOTE],
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="scripts/bench-gateway --alone", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--streams", type=int, nargs="+", default=list(_STREAMS))
    parser.add_argument("--before", type=Path, help="another checkout to measure beside this one")
    parser.add_argument("--dry", action="store_true", help="write nothing to the page")
    options = parser.parse_args(arguments)
    console = Console()
    with ExitStack() as stack:
        url, _ = stack.enter_context(upstream())
        peers = _peers(stack, url, options.before.resolve() if options.before else None)
        costs = measure(url, peers, options.streams, options.rounds, options.seconds, console.print)
    table = _table(costs, options.rounds, options.seconds)
    print_table(table, console)
    if not options.dry:
        environment = describe_environment(measured_environment())
        publish(_SECTION, "What an event costs that comes alone", [_COMMAND, environment, markdown(table)])


if __name__ == "__main__":
    main()
