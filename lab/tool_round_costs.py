"""Measure what a tool round costs a gateway, beside requests without one: `scripts/bench-tool-round`.

A round is two requests to the model: one that ends with a call, one that reads its result. Where the client runs the
tool, it sends both. Where the gateway runs it, there is one request, and the ledger records what is done. The upstream
answers at once; the CPU is that of the gateway's process, and of PostgreSQL's processes where the ledger is there.
"""

import argparse
import asyncio
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import aiohttp
from rich.console import Console

from ferrule.bench.tables import Table, print_table
from lab.gateway_load import LoadRequest
from lab.gateway_peers import upstream
from lab.gateway_process import gateway_process
from lab.ledger_server import PostgresServer, cpu_since, postgres_server
from lab.paths import ROOT
from lab.process_cost import own_cpu

_TOOLS: Final = '''
from ferrule import tool

@tool
async def take_note(text: str) -> str:
    """Takes a note."""
    return "noted"

read_only = take_note

def effect():
    @tool(side_effects=True)
    async def take_note(text: str) -> str:
        """Takes a note."""
        return "noted"
    return take_note

with_effect = effect()
'''
_CALL: Final = {"id": "call_1", "type": "function", "function": {"name": "take_note", "arguments": '{"text": "word"}'}}
_RESULT: Final = [
    {"role": "assistant", "content": None, "tool_calls": [_CALL]},
    {"role": "tool", "tool_call_id": "call_1", "content": "noted"},
]
_ENGINES: Final = {"chat": "m=openai:m?url={url}/0/v1&key=x", "text": "m=vllm:{url}/0?format=hermes&model=m"}
_ROWS: Final = {
    "plain": "a request without tools",
    "call": "a request that ends with a call, which the client runs",
    "result": "the client's next request, with the result",
    "read": "a request with one round, a tool that only reads",
    "effect": "a request with one round, a tool with an effect",
}
_TOOLS_OF_ROWS: Final = {"": ("plain", "call", "result"), "read_only": ("read",), "with_effect": ("effect",)}
"""The gateway's own tools, and the rows that are measured with them."""
_EVENTS: Final = 8


@dataclass(slots=True)
class Gateway:
    """A running gateway and what its requests cost, in milliseconds: the smallest of the rounds."""

    url: str
    pid: int
    database: str = ""
    costs: dict[str, tuple[float, float]] = field(default_factory=dict[str, tuple[float, float]])

    def keep(self, row: str, gateway: float, server: float) -> None:
        before = self.costs.get(row, (float("inf"), float("inf")))
        self.costs[row] = (min(before[0], gateway), min(before[1], server))


def body_of(row: str) -> dict[str, Any]:
    body = LoadRequest("", _EVENTS, has_tool=row in ("call", "result")).body
    # The upstream calls the tool that it finds in a prompt: the user does not name it.
    messages = [{"role": "user", "content": "Make a note about Paris, please."}]
    return {**body, "messages": [*messages, *(_RESULT if row == "result" else ())]}


async def send(url: str, row: str, count: int) -> None:
    """Send requests, four at a time, and read their answers."""
    remaining, body = iter(range(count)), body_of(row)
    async with aiohttp.ClientSession() as session:

        async def keep_sending() -> None:
            for _ in remaining:
                async with session.post(f"{url}/v1/chat/completions", json=body) as answer:
                    text = await answer.text()
                    assert answer.status == 200, text[:300]
                    assert ('"finish_reason":"tool_calls"' in text) == (row == "call"), text[:2000]

        await asyncio.gather(*(keep_sending() for _ in range(4)))


def measure(gateway: Gateway, row: str, count: int, server: PostgresServer) -> None:
    backends = server.cpu(gateway.database) if gateway.database else {}
    before = own_cpu(gateway.pid)
    asyncio.run(send(gateway.url, row, count))
    cpu = own_cpu(gateway.pid) - before
    theirs = cpu_since(server.cpu(gateway.database), backends) if gateway.database else 0.0
    gateway.keep(row, 1e3 * cpu / count, 1e3 * theirs / count)


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/bench-tool-round", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--before", type=Path, help="another checkout, measured by turns with this one")
    parser.add_argument("--count", type=int, default=60, help="requests in each round")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--engine", choices=tuple(_ENGINES), action="append")
    parser.add_argument("--ledger", choices=("sqlite", "postgres"), action="append")
    options = parser.parse_args()
    checkouts = {"before": options.before.resolve()} if options.before else {}
    checkouts["now"] = ROOT
    console = Console(width=None if Console().is_terminal else 150)
    with ExitStack() as stack:
        server = stack.enter_context(postgres_server())
        url, _ = stack.enter_context(upstream())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ferrule-round-")))
        (folder / "tools.py").write_text(_TOOLS, encoding="utf-8")
        for engine in options.engine or _ENGINES:
            for ledger in options.ledger or ("sqlite", "postgres"):
                costs = _measure_all(checkouts, engine, ledger, url, folder, server, options)
                print_table(_table(engine, ledger, costs), console)


def _measure_all(
    checkouts: Mapping[str, Path],
    engine: str,
    ledger: str,
    url: str,
    folder: Path,
    server: PostgresServer,
    options: argparse.Namespace,
) -> dict[str, dict[str, tuple[float, float]]]:
    with ExitStack() as stack:
        gateways: list[tuple[str, tuple[str, ...], Gateway]] = []
        for tools, rows in _TOOLS_OF_ROWS.items():
            for label, checkout in checkouts.items():
                name = f"{engine}_{label}_{tools or 'none'}"
                database = name if ledger == "postgres" else ""
                address = server.create(name) if database else str(folder / f"{name}.db")
                arguments = ["--ledger", address, *(["--tools", f"{folder / 'tools.py'}:{tools}"] if tools else [])]
                environment = {
                    "PYTHONPATH": str(checkout / "src"),
                    "TOOLS_REQUIRE_CONFIRMATION_FOR_SIDE_EFFECTS": "false",
                }
                process = stack.enter_context(
                    gateway_process(arguments, engine=_ENGINES[engine].format(url=url), environment=environment)
                )
                gateways.append((label, rows, Gateway(process.url, process.process.pid, database)))
        for _, rows, gateway in gateways:
            for row in rows:
                asyncio.run(send(gateway.url, row, 8))
        # All of them by turns: the load of a machine changes.
        for _ in range(options.rounds):
            for _, rows, gateway in gateways:
                for row in rows:
                    measure(gateway, row, options.count, server)
    costs: dict[str, dict[str, tuple[float, float]]] = {label: {} for label in checkouts}
    for label, _, gateway in gateways:
        costs[label] |= gateway.costs
    return costs


def _table(engine: str, ledger: str, costs: Mapping[str, Mapping[str, tuple[float, float]]]) -> Table:
    rows: list[list[str]] = []
    for row, words in _ROWS.items():
        cells: list[str] = []
        for each in costs.values():
            gateway, theirs = each[row]
            plain, both = sum(each["plain"]), sum((*each["call"], *each["result"]))
            cells += [f"{gateway:.2f}", f"{theirs:.2f}" if theirs else "", f"{(gateway + theirs) / plain:.1f}"]
            cells.append(f"{(gateway + theirs) / both:.1f}" if row in ("read", "effect") else "")
        rows.append([words, *cells])
    columns = [
        f"{label}: {name}" for label in costs for name in ("CPU gateway, ms", "CPU server, ms", "to plain", "to both")
    ]
    about = "*to plain*: to a request without tools. *to both*: to the two requests of a client that runs the tool."
    return Table(f"A tool round, {engine} engine, ledger in {ledger}", about, ("", *columns), rows)


if __name__ == "__main__":
    main()
