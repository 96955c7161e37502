"""What traces cost: `scripts/long traces`. A request with and without a record of it, and a list among many records."""

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from ferrule.bench.tables import Table, markdown, print_table
from ferrule.run.ledger.address import open_ledger
from ferrule.run.ledger.trace import RequestError, TracedRequest, TraceQuery, TraceStatus
from lab.alternating_gateways import GatewayTimes, alternate
from lab.environment import describe_environment, measured_environment
from lab.results_page import publish
from run.ledger_databases import postgres_cluster

_COMMAND: Final = "```sh\nscripts/long traces\n```"
_HISTORY: Final = [
    {"role": role, "content": f"{number}: {'word ' * 60}"} for number in range(40) for role in ("user", "assistant")
]
_BODY: Final = json.dumps({"model": "m", "messages": [*_HISTORY, {"role": "user", "content": "Go on."}]})
_COST: Final = (
    "Milliseconds of a request with a history of 25 kB, by turns to a gateway that records no traces and to one that "
    "records them, and the CPU time of the whole process for each request."
)
_LISTS: Final = (
    "Milliseconds to list 31 traces, the median of ten, among as many recorded requests as are named; four requests "
    "make a trace. One trace in a hundred failed, and one in a thousand called the tool that is looked for."
)
_QUERIES: Final[Mapping[str, Mapping[str, Any]]] = {
    "newest": {},
    "of one principal": {"principal": "p7"},
    "failed": {"status": TraceStatus.FAILED},
    "called a tool": {"tool": "rare"},
    "of the last hour": {"since": 1.0},
    "with a text that none has": {"text": "never written"},
}
_BATCH: Final = 500


@contextmanager
def _databases(folder: Path) -> Generator[dict[str, str]]:
    with postgres_cluster() as cluster:
        yield {
            "SQLite": str(folder / "{name}.db"),
            "PostgreSQL": f"postgresql://postgres@/postgres?host={cluster}",
        }


def _request_costs(ledgers: Mapping[str, str], count: int, folder: Path) -> Table:
    rows: list[tuple[str, ...]] = []
    for database, ledger in ledgers.items():
        configs = {
            name: '[engines.m]\nuse = "fake:Hello."\n'
            f'[server]\nledger = "{ledger.format(name=name)}"\n[traces]\ndays = {days}\n'
            for name, days in (("without", 0), ("with", 30))
        }
        times = alternate(configs, _BODY, count, folder)
        rows.append(
            (database, *_median(times["without"], times["with"]), *_cpu(count, times["without"], times["with"]))
        )
    columns = ("ledger", "without, p50", "with, p50", "without, CPU", "with, CPU")
    return Table("The cost of recording a request", _COST, columns, rows)


def _median(*times: GatewayTimes) -> list[str]:
    return [f"{statistics.median(one.seconds) * 1000:.2f}" for one in times]


def _cpu(count: int, *times: GatewayTimes) -> list[str]:
    return [f"{one.cpu_seconds / count * 1000:.2f}" for one in times]


async def _list_times(address: str, count: int, console: Console) -> list[str]:
    began = time.time() - count
    failure = RequestError(code="engine_failed", status=502, message="the engine failed")
    async with await open_ledger(address) as ledger:
        for first in range(0, count, _BATCH):
            await ledger.record_requests([_row(number, began, failure) for number in range(first, first + _BATCH)])
            if first % (count // 10) == 0:
                console.print(f"  {first} of {count} requests recorded")
        medians: list[str] = []
        for terms in _QUERIES.values():
            query: dict[str, Any] = {**terms, "since": time.time() - 3600} if "since" in terms else {**terms}
            seconds: list[float] = []
            for _ in range(10):
                started = time.perf_counter()
                await ledger.traces_of("local", TraceQuery(**query, limit=31))
                seconds.append(time.perf_counter() - started)
            medians.append(f"{statistics.median(seconds) * 1000:.1f}")
    return medians


def _row(number: int, began: float, failure: RequestError) -> TracedRequest:
    trace, place = divmod(number, 4)
    is_failed = trace % 100 == 0 and place == 3
    return TracedRequest(
        id=f"request_{number}",
        tenant="local",
        principal=f"p{trace % 50}",
        at=began + number,
        api="/v1/chat/completions",
        seconds=0.5,
        status=TraceStatus.FAILED if is_failed else TraceStatus.COMPLETED,
        error=failure if is_failed else None,
        model="m",
        prompt_tokens=100,
        completion_tokens=10,
        tools=("look", "rare") if trace % 1000 == 0 else ("look",),
        title=f"Question {trace}",
        messages_text=json.dumps([{"role": "user", "parts": [{"kind": "text", "text": f"Question {trace} " * 10}]}]),
        history_key=f"{trace}.{place}",
        earlier_keys=(f"{trace}.{place - 1}",) if place else (),
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/long traces", description=__doc__)
    parser.add_argument("requests", nargs="?", type=int, default=100_000, help="recorded requests (100000)")
    parser.add_argument("--sent", type=int, default=300, help="requests for each cost (300)")
    parser.add_argument("--print", action="store_true", help="publish nothing")
    options = parser.parse_args()
    console = Console()
    with tempfile.TemporaryDirectory() as name, _databases(Path(name)) as ledgers:
        tables = [_request_costs(ledgers, options.sent, Path(name))]
        print_table(tables[0], console)
        columns = {
            database: asyncio.run(_list_times(ledger.format(name="lists"), options.requests, console))
            for database, ledger in ledgers.items()
        }
        rows = [(query, *(column[at] for column in columns.values())) for at, query in enumerate(_QUERIES)]
        tables.append(Table(f"A list among {options.requests:,} requests", _LISTS, ("list", *columns), rows))
        print_table(tables[1], console)
    if not options.print:
        publish("traces", "Traces", [_COMMAND, describe_environment(measured_environment()), *map(markdown, tables)])


if __name__ == "__main__":
    main()
