"""The section of results.md about storms: the last storm on each database, with its counts."""

from __future__ import annotations

import json
import os
from pathlib import Path
from statistics import median
from typing import Any, Final

from ferrule.bench.tables import Table, markdown
from lab.environment import describe_environment, measured_environment
from lab.ledger_storm.run import StormResult
from lab.paths import CACHE
from lab.results_page import publish

_KEPT: Final = CACHE / "results" / "ledger-storm.json"
_COMMAND: Final = "```sh\nscripts/long ledger-storm\n```"
_ABOUT: Final = (
    "Four workers, two gateways and a process that decides on approvals use one ledger. One after another is killed "
    "with SIGKILL at a random moment of its work, and others are stopped with SIGSTOP until the rest own what they "
    "had, and woken. Then every effect, every event that a client read, and every audit log is compared with what the "
    "ledger says. An effect that happened twice, one without a row, a gap in the events and a broken audit log are "
    "breaches."
)
_SHOWN: Final = {"postgres": "PostgreSQL", "sqlite": "SQLite"}
_ROWS: Final = (
    *("kills", "freezes", "freezes in which the others could not take over", "conversations", "turns", "effects"),
    *("effects of unknown outcome", "responses", "events", "returns of clients", "breaches"),
)


def figures_of(result: StormResult) -> dict[str, int | float]:
    storm, counts = result.storm, result.findings.counts
    seconds = [one.seconds for one in storm.freezes] or [0.0]
    return {
        "kills": sum(storm.kills.values()),
        "freezes": len(storm.freezes),
        "freezes in which the others could not take over": sum(bool(one.blocked_by) for one in storm.freezes),
        "median freeze, s": median(seconds),
        "effects of unknown outcome": counts["effects recorded as unknown"],
        **{name: counts[name] for name in ("conversations", "turns", "effects", "responses", "events")},
        "returns of clients": counts["returns of clients"],
        "breaches": len(result.findings.breaches),
        "seconds": result.seconds,
        "seed": storm.size.seed,
    }


def keep(database: str, figures: dict[str, int | float], file: Path = _KEPT) -> None:
    """Keep the figures of a storm, which replace those of the last one on this database."""
    kept = _read(file)
    where = f"{describe_environment(measured_environment())} Load average {os.getloadavg()[2]:.1f}."
    kept[database] = {"where": where, "figures": figures}
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(kept, indent=1), encoding="utf-8")


def table_of(kept: dict[str, Any]) -> Table:
    names = [name for name in _SHOWN if name in kept]
    rows = [[row, *(f"{kept[name]['figures'][row]:,}" for name in names)] for row in _ROWS]
    return Table("Storms", _ABOUT, ("", *(_SHOWN[name] for name in names)), rows)


def publish_storms(file: Path = _KEPT) -> None:
    kept = _read(file)
    where = [f"{shown}: {kept[name]['where']}" for name, shown in _SHOWN.items() if name in kept]
    table = table_of(kept)
    publish("ledger-storm", "A ledger in a storm", [_COMMAND, *where, table.about, markdown(table)])


def _read(file: Path) -> dict[str, Any]:
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
