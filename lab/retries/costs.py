"""What the claim of a request costs: the same request with a tool that has side effects, and with one that has none."""

import json
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ferrule.bench.tables import Table
from lab.alternating_gateways import alternate
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
    configs: dict[str, str] = {}
    for name, side_effects in (("plain", False), ("claimed", True)):
        tools = folder / f"{name}_tools.py"
        tools.write_text(_TOOL.format(side_effects=side_effects), encoding="utf-8")
        configs[name] = (
            f'[engines.m]\nuse = "fake:Hello."\n[server]\nledger = "{ledger.format(name=name)}"\n'
            f'[sources]\nfunctions = ["{tools}"]\n'
        )
    times = alternate(configs, _BODY, count, folder)
    return times["plain"].seconds, times["claimed"].seconds
