"""What the claim of a request costs: the same request with a tool that has side effects, and with one that has none."""

import json
import statistics
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from http.client import HTTPConnection
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from ferrule.bench.tables import Table
from lab.gateway_process import gateway_process
from run.ledger_databases import postgres_cluster

_BODY: Final = json.dumps({"model": "m", "messages": [{"role": "user", "content": "Hello."}]})
_TOOL: Final = '''from ferrule import tool


@tool(side_effects={side_effects})
def pay(amount: int) -> str:
    """Pay an amount."""
    return "paid"


TOOLS = [pay]
'''
_ABOUT: Final = (
    "Milliseconds of a request that the gateway answers without calling its tool, by turns to a gateway whose tool has "
    "side effects, which stores the request first, and to one whose tool has none."
)


def claim_costs(count: int) -> Table:
    rows: list[tuple[str, ...]] = []
    with postgres_cluster() as cluster, tempfile.TemporaryDirectory() as folder:
        ledgers = {
            "SQLite": str(Path(folder) / "{name}.db"),
            "PostgreSQL": f"postgresql://postgres@/postgres?host={cluster}",
        }
        for database, ledger in ledgers.items():
            without, with_claim = _measure(Path(folder), ledger, count)
            medians = [statistics.median(times) * 1000 for times in (without, with_claim)]
            rows.append((database, *(f"{one:.2f}" for one in (*medians, medians[1] - medians[0]))))
    columns = ("ledger", "without a claim, p50", "with a claim, p50", "difference")
    return Table("The cost of a claim", _ABOUT, columns, rows)


def _measure(folder: Path, ledger: str, count: int) -> tuple[Sequence[float], Sequence[float]]:
    times: dict[bool, list[float]] = {False: [], True: []}
    with ExitStack() as stack:
        connections: dict[bool, HTTPConnection] = {}
        for side_effects in times:
            name = "claimed" if side_effects else "plain"
            tools, config = folder / f"{name}_tools.py", folder / f"{name}.toml"
            tools.write_text(_TOOL.format(side_effects=side_effects), encoding="utf-8")
            config.write_text(
                f'[engines.m]\nuse = "fake:Hello."\n[server]\nledger = "{ledger.format(name=name)}"\n'
                f'[sources]\nfunctions = ["{tools}"]\n',
                encoding="utf-8",
            )
            gateway = stack.enter_context(gateway_process(["--config", str(config)], engine=None))
            connections[side_effects] = HTTPConnection(urlsplit(gateway.url).netloc)
        for _ in range(count):
            for side_effects, connection in connections.items():
                started = time.perf_counter()
                connection.request("POST", "/v1/chat/completions", _BODY, {"content-type": "application/json"})
                answer = connection.getresponse()
                answer.read()
                assert answer.status == 200
                times[side_effects].append(time.perf_counter() - started)
    return times[False], times[True]
