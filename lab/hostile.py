"""Run hostile clients against `ferrule serve`, alone and behind Envoy: `scripts/long hostile`.

Reports the responses they got, the connections that stayed open, the gateway's memory, and how other clients fared.
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

from ferrule.bench.tables import Table, markdown, print_table
from lab import hostile_envoy
from lab.environment import describe_environment, measured_environment
from lab.gateway_process import GatewayProcess, gateway_process
from lab.hostile_clients import ATTACKS, Target, attack, well_behaved_client
from lab.process_cost import cost_of
from lab.results_page import publish
from lab.servers import answers, free_port, run_server

_COMMAND: Final = "```sh\nscripts/setup-envoy\nscripts/long hostile\n```"
# Shorter than the defaults of 10, 30 and 60 seconds, so that a run ends soon.
QUICK: Final[Mapping[str, str]] = {
    "FERRULE_LIMITS_HEADER_SECONDS": "3",
    "FERRULE_LIMITS_BODY_SECONDS": "4",
    "FERRULE_LIMITS_SEND_SECONDS": "4",
}
PATIENCE: Final = 12.0
_WARM: Final = 50
_SETTLES_IN: Final = 15.0


@dataclass(frozen=True, slots=True)
class AttackResult:
    """One attack. `open_connections` counts connections that the attack left open; sizes are in bytes."""

    outcomes: Counter[str]
    others: Counter[str]
    open_connections: int
    before: int
    highest: int
    after: int


@contextmanager
def gateway_under_attack(environment: Mapping[str, str] = QUICK) -> Generator[GatewayProcess]:
    """A gateway in front of an engine whose answers are as long as requested."""
    port = free_port()
    command = [sys.executable, "-m", "lab.verbose_upstream", str(port)]
    with (
        run_server("upstream", command, {}, port, answers("/v1/models"), 30) as url,
        gateway_process(engine=f"m=openai:m?url={url}/v1", environment=environment) as gateway,
    ):
        yield gateway


def port_of(gateway: GatewayProcess) -> int:
    return int(gateway.url.rsplit(":", 1)[1])


def sockets_of(pid: int) -> int:
    """How many sockets a process has open."""
    count = 0
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            count += os.readlink(link).startswith("socket:")
        except FileNotFoundError:
            # Closed in the meantime.
            continue
    return count


async def warm(target: Target, times: int = _WARM) -> None:
    """Send some requests first, so that one-time initialisation is not measured."""
    for _ in range(times):
        await well_behaved_client(target)


def run_attack(name: str, pid: int, target: Target, times: int | None = None) -> AttackResult:
    client, usual = ATTACKS[name]
    sockets, before = sockets_of(pid), cost_of(pid).resident
    with _sample_memory(pid) as highest:
        result = asyncio.run(attack(client, times or usual, target))
    until = time.monotonic() + _SETTLES_IN
    while sockets_of(pid) > sockets and time.monotonic() < until:
        time.sleep(0.2)
    open_connections = max(sockets_of(pid) - sockets, 0)
    return AttackResult(result.outcomes, result.others, open_connections, before, max(highest), cost_of(pid).resident)


@contextmanager
def _sample_memory(pid: int) -> Generator[list[int]]:
    samples, is_over = [cost_of(pid).resident], threading.Event()

    def sample() -> None:
        while not is_over.wait(0.05):
            samples.append(cost_of(pid).resident)

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield samples
    finally:
        is_over.set()
        thread.join()


def _counts_text(counts: Counter[str]) -> str:
    return ", ".join(f"{count} x {what}" for what, count in sorted(counts.items()))


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.0f}"


def _row(name: str, result: AttackResult) -> tuple[str, ...]:
    others = f"{result.others['200']} of {result.others.total()}"
    sizes = (_megabytes(size) for size in (result.before, result.highest, result.after))
    return (name, _counts_text(result.outcomes), str(result.open_connections), others, *sizes)


def table_of(title: str, about: str, rows: Sequence[tuple[str, ...]]) -> Table:
    columns = ("attack", "outcomes", "still open", "others answered", "MB before", "highest", "after")
    return Table(title, about, columns, rows, text_columns=2)


def _measure_attacks(title: str, about: str, pid: int, target: Target, progress: Progress) -> Table:
    asyncio.run(warm(target))
    rows: list[tuple[str, ...]] = []
    for name in progress.track(ATTACKS, description=title):
        rows.append(_row(name, run_attack(name, pid, target)))
    return table_of(title, about, rows)


def tables(progress: Progress) -> list[Table]:
    about = (
        "Resident memory of the gateway. *Still open*: connections that the gateway had not closed "
        f"{_SETTLES_IN:.0f} s after the attack. *Others answered*: normal requests during the attack, and how many "
        f"were answered. A client waits for {PATIENCE:.0f} s and then counts as *open*."
    )
    result: list[Table] = []
    with gateway_under_attack() as gateway:
        pid, port = gateway.process.pid, port_of(gateway)
        result.append(_measure_attacks("The gateway alone", about, pid, Target(port, PATIENCE), progress))
    with gateway_under_attack() as gateway:
        pid = gateway.process.pid
        with hostile_envoy.envoy(port_of(gateway)) as front:
            words = f"Envoy {hostile_envoy.version()}, configured by docs/how-to/deploy/envoy.yaml with shorter times."
            result.append(_measure_attacks("Behind Envoy", words, pid, Target(front, PATIENCE), progress))
    return result


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/long hostile", description=__doc__)
    parser.add_argument("--no-page", action="store_true", help="print only")
    arguments = parser.parse_args()
    console = Console()
    with Progress(console=console) as progress:
        result_tables = tables(progress)
    for table in result_tables:
        print_table(table, console)
    if arguments.no_page:
        console.print("\n\n".join(map(markdown, result_tables)), markup=False, soft_wrap=True)
    else:
        parts = [_COMMAND, describe_environment(measured_environment()), *map(markdown, result_tables)]
        publish("hostile", "Slow and hostile clients", parts)


if __name__ == "__main__":
    main()
