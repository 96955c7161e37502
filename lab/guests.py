"""Measure what a tenant notices of another tenant's bad tools, on `ferrule serve`: `scripts/long guests`.

For each attack a new gateway: calls of a good tool by one tenant before and during the attack of another, then SIGTERM.
"""

import argparse
import hashlib
import http.client
import json
import os
import random
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from rich.console import Console

from ferrule.bench.tables import Table, markdown, print_table
from lab import guest_tools
from lab.environment import describe_environment, measured_environment
from lab.gateway_process import GatewayProcess, gateway_process
from lab.results_page import publish

_COMMAND: Final = "```sh\nscripts/long guests\n```"
_TENANTS: Final = ("acme", "evil", "other")
_CALLS: Final = 1000
_DRAIN: Final = 5.0
_MEMORY: Final = 768 << 20
_PATIENCE: Final = 120.0
_PAUSE: Final = 1.0
_SETTLES_IN: Final = 7.0
"""Until then all attackers have called, and what hangs has passed its deadline."""
ATTACKS: Final[Mapping[str, tuple[str, Mapping[str, int], int]]] = {
    "none": ("look", {}, 0),
    "exits": ("leave", {"code": 0}, 4),
    "exits in a task": ("leave_async", {"code": 0}, 4),
    "hangs, 64 calls of two tenants": ("hang", {}, 64),
    "hangs in a process": ("hang_apart", {}, 8),
    "forks, in a process": ("fork", {}, 4),
    "takes memory, in a process": ("take_memory", {}, 4),
}
"""Each attack: the tool, its arguments, and how many clients call it again and again."""


@dataclass(slots=True)
class Client:
    """One tenant's connection to a gateway."""

    url: str
    tenant: str
    connection: http.client.HTTPConnection = field(init=False)

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        self.connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=_PATIENCE)

    def call(self, name: str, arguments: Mapping[str, int | str]) -> int:
        headers = {"authorization": f"Bearer {self.tenant}", "content-type": "application/json"}
        body = json.dumps({"name": name, "arguments": arguments})
        self.connection.request("POST", "/v1/tools/call", body, headers)
        answer = self.connection.getresponse()
        answer.read()
        return answer.status


def percentile(seconds: list[float], part: float) -> float:
    return sorted(seconds)[min(int(len(seconds) * part), len(seconds) - 1)] * 1000


def measure_calls(client: Client, count: int) -> tuple[list[float], Counter[int]]:
    """The seconds of each call of a good tool, and the statuses."""
    seconds: list[float] = []
    statuses: Counter[int] = Counter()
    for _ in range(count):
        started = time.perf_counter()
        statuses[client.call("look", {"place": "Rome"})] += 1
        seconds.append(time.perf_counter() - started)
    return seconds, statuses


@contextmanager
def gateway_of_guests(folder: Path) -> Generator[GatewayProcess]:
    keys = "".join(
        f'[keys.{tenant}]\nsha256 = "{hashlib.sha256(tenant.encode()).hexdigest()}"\n'
        f'tenant = "{tenant}"\ntools = ["*"]\nadmin = true\n'
        for tenant in _TENANTS
    )
    config = folder / "ferrule.toml"
    config.write_text(
        f'[engines.e0]\nuse = "fake:Hello."\n[server]\ndrain_seconds = {_DRAIN}\nledger = "{folder / "ledger.db"}"\n'
        f'[tools]\ntools_per_tool_timeout_seconds = 5.0\n[sources]\nfunctions = ["{guest_tools.__file__}"]\n'
        f"functions_memory_bytes = {_MEMORY}\n{keys}",
        encoding="utf-8",
    )
    with gateway_process(["--config", str(config)], engine=None) as gateway:
        yield gateway


def run_attack(name: str, count: int) -> tuple[str, ...]:
    tool, arguments, clients = ATTACKS[name]
    is_over = threading.Event()
    outcomes: Counter[int] = Counter()

    def attack(url: str, tenant: str) -> None:
        client = Client(url, tenant)
        # A gateway that stops closes connections, and this client then has nothing more to do.
        with suppress(OSError, http.client.HTTPException):
            while not is_over.is_set():
                outcomes[client.call(tool, arguments)] += 1
                is_over.wait(_PAUSE * (0.5 + random.random()))

    with tempfile.TemporaryDirectory() as folder, gateway_of_guests(Path(folder)) as gateway:
        good = Client(gateway.url, "acme")
        measure_calls(good, 50)
        quiet, _ = measure_calls(good, count)
        tenants = _TENANTS[1:] if clients > 32 else _TENANTS[1:2]
        threads = [
            threading.Thread(target=attack, args=(gateway.url, tenants[n % len(tenants)]), daemon=True)
            for n in range(clients)
        ]
        for thread in threads:
            thread.start()
        time.sleep(_SETTLES_IN if clients else 0.0)
        attacked, statuses = measure_calls(good, count)
        is_over.set()
        started = time.perf_counter()
        gateway.process.send_signal(signal.SIGTERM)
        code = gateway.process.wait(_PATIENCE)
        stopped = time.perf_counter() - started
        starts = gateway.log.read_text(encoding="utf-8", errors="replace").count('"event": "start"')
    p99 = percentile(quiet, 0.99), percentile(attacked, 0.99)
    return (
        name,
        ", ".join(f"{n} x {status}" for status, n in sorted(outcomes.items())) or "-",
        f"{statuses[200]} of {count}",
        f"{percentile(quiet, 0.5):.1f}",
        f"{percentile(attacked, 0.5):.1f}",
        f"{p99[0]:.1f}",
        f"{p99[1]:.1f}",
        f"{p99[1] / p99[0]:.2f}",
        f"{stopped:.1f} (code {code})",
        str(starts - 1),
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/long guests", description=__doc__)
    parser.add_argument("--calls", type=int, default=_CALLS, help="calls of the good tool before and during an attack")
    parser.add_argument("--only", choices=list(ATTACKS), help="one attack")
    parser.add_argument("--no-page", action="store_true", help="print only")
    arguments = parser.parse_args()
    console = Console(width=200)
    load = os.getloadavg()[0]
    rows = [run_attack(name, arguments.calls) for name in ATTACKS if arguments.only in (None, name)]
    about = (
        f"Milliseconds of {arguments.calls} calls of a good tool by one tenant, one after the other, before and while "
        f"others attack. Each attacker calls again about {_PAUSE:g} s after an answer, so that the tool is measured "
        f"and not the rate of requests. `drain_seconds` is {_DRAIN:g}; *SIGTERM* is sent during the attack, and its "
        "column says after how many seconds the process had ended. Each row is one gateway process; *restarts* are "
        f"counted in its log. The machine's load average was {load:.1f} at the start."
    )
    columns = (
        *("the tool", "its answers", "good calls", "p50 quiet", "p50"),
        *("p99 quiet", "p99", "ratio", "SIGTERM", "restarts"),
    )
    table = Table("Tools that behave badly", about, columns, rows, text_columns=3)
    print_table(table, console)
    if not arguments.no_page:
        publish("guests", "Tools as guests", [_COMMAND, describe_environment(measured_environment()), markdown(table)])


if __name__ == "__main__":
    main()
