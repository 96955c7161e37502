"""Hostile clients against `ferrule serve`, alone and behind Envoy: `scripts/long hostile`.

Tells what they got, what the gateway kept of them, what it cost in memory, and how others fared meanwhile.
"""

import argparse
import asyncio
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import Progress

from ferrule.bench.tables import Table, markdown, show
from lab import hostile_envoy
from lab.environment import circumstances, told
from lab.gateway_process import GatewayProcess, gateway_process
from lab.hostile_clients import ATTACKS, Target, attacked, one_who_behaves
from lab.process_cost import cost_of
from lab.results_page import publish
from lab.servers import answers, free_port, running

_COMMAND: Final = "```sh\nscripts/setup-envoy\nscripts/long hostile\n```"
# Shorter than by default, so that a run ends: 10, 30 and 60 seconds become these.
QUICK: Final[Mapping[str, str]] = {
    "FERRULE_LIMITS_HEADER_SECONDS": "3",
    "FERRULE_LIMITS_BODY_SECONDS": "4",
    "FERRULE_LIMITS_SEND_SECONDS": "4",
}
PATIENCE: Final = 12.0
_WARM: Final = 50
_SETTLES_IN: Final = 15.0


@dataclass(frozen=True, slots=True)
class Seen:
    """One attack. `held` are connections of the gateway that were not there before; sizes are in bytes."""

    got: Counter[str]
    others: Counter[str]
    held: int
    before: int
    highest: int
    after: int


@contextmanager
def besieged_gateway(environment: Mapping[str, str] = QUICK) -> Generator[GatewayProcess]:
    """A gateway before an engine that has as much to say as it is asked for."""
    port = free_port()
    command = [sys.executable, "-m", "lab.verbose_upstream", str(port)]
    with (
        running("upstream", command, {}, port, answers("/v1/models"), 30) as url,
        gateway_process(engine=f"m=openai:m?url={url}/v1", environment=environment) as gateway,
    ):
        yield gateway


def port_of(gateway: GatewayProcess) -> int:
    return int(gateway.url.rsplit(":", 1)[1])


def sockets_of(pid: int) -> int:
    """How many sockets a process has open."""
    found = 0
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            found += os.readlink(link).startswith("socket:")
        except FileNotFoundError:
            # Closed while we looked.
            continue
    return found


async def warm(target: Target, times: int = _WARM) -> None:
    """What is made once is made before anything is measured."""
    for _ in range(times):
        await one_who_behaves(target)


def besieged(name: str, pid: int, target: Target, times: int | None = None) -> Seen:
    client, usual = ATTACKS[name]
    sockets, before = sockets_of(pid), cost_of(pid).resident
    with _highest(pid) as highest:
        result = asyncio.run(attacked(client, times or usual, target))
    until = time.monotonic() + _SETTLES_IN
    while sockets_of(pid) > sockets and time.monotonic() < until:
        time.sleep(0.2)
    held = max(sockets_of(pid) - sockets, 0)
    return Seen(result.got, result.others, held, before, max(highest), cost_of(pid).resident)


@contextmanager
def _highest(pid: int) -> Generator[list[int]]:
    seen, is_over = [cost_of(pid).resident], threading.Event()

    def look() -> None:
        while not is_over.wait(0.05):
            seen.append(cost_of(pid).resident)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        is_over.set()
        thread.join()


def _counted(found: Counter[str]) -> str:
    return ", ".join(f"{count} x {what}" for what, count in sorted(found.items()))


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.0f}"


def _row(name: str, seen: Seen) -> tuple[str, ...]:
    fared = f"{seen.others['200']} of {seen.others.total()}"
    sizes = (_megabytes(size) for size in (seen.before, seen.highest, seen.after))
    return (name, _counted(seen.got), str(seen.held), fared, *sizes)


def table_of(title: str, about: str, rows: Sequence[tuple[str, ...]]) -> Table:
    columns = ("attack", "what they got", "still held", "others answered", "MB before", "highest", "after")
    return Table(title, about, columns, rows, words=2)


def _measured(title: str, about: str, pid: int, target: Target, progress: Progress) -> Table:
    asyncio.run(warm(target))
    rows: list[tuple[str, ...]] = []
    for name in progress.track(ATTACKS, description=title):
        rows.append(_row(name, besieged(name, pid, target)))
    return table_of(title, about, rows)


def tables(progress: Progress) -> list[Table]:
    about = (
        "Resident memory of the gateway. *Still held*: connections that the gateway had not given up "
        f"{_SETTLES_IN:.0f} s after the attack. *Others answered*: plain questions asked all the while, and how many "
        f"were answered. A client looks on for {PATIENCE:.0f} s and then counts as *open*."
    )
    made: list[Table] = []
    with besieged_gateway() as gateway:
        pid, port = gateway.process.pid, port_of(gateway)
        made.append(_measured("The gateway alone", about, pid, Target(port, PATIENCE), progress))
    with besieged_gateway() as gateway:
        pid = gateway.process.pid
        with hostile_envoy.envoy(port_of(gateway)) as front:
            words = f"Envoy {hostile_envoy.version()}, configured by docs/how-to/deploy/envoy.yaml with shorter times."
            made.append(_measured("Behind Envoy", words, pid, Target(front, PATIENCE), progress))
    return made


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/long hostile", description=__doc__)
    parser.add_argument("--no-page", action="store_true", help="print only")
    arguments = parser.parse_args()
    console = Console()
    with Progress(console=console) as progress:
        found = tables(progress)
    for table in found:
        show(table, console)
    if arguments.no_page:
        console.print("\n\n".join(map(markdown, found)), markup=False, soft_wrap=True)
    else:
        parts = [_COMMAND, told(circumstances()), *map(markdown, found)]
        publish("hostile", "Slow and hostile clients", parts)


if __name__ == "__main__":
    main()
