"""The ledger that release 0.1.0 has written, in version 5 of the tables: `ledger_version_5.json`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ferrule.run.ledger.postgres_tables import DIALECT as POSTGRES
from ferrule.run.ledger.sqlite import DIALECT as SQLITE
from run.ledger_databases import Database

WRITTEN: dict[str, Any] = json.loads(Path(__file__).with_name("ledger_version_5.json").read_text())


def write_old_ledger(database: Database) -> None:
    """Write the tables and everything in them into an empty database."""
    is_postgres = database.argument.startswith("postgresql:")
    for text in (POSTGRES if is_postgres else SQLITE).schema(WRITTEN["tables"]):
        database.execute(text, ())
    for name, table in WRITTEN["rows"].items():
        columns = ", ".join(table["columns"])
        marks = ", ".join("?" for _ in table["columns"])
        for row in table["rows"]:
            values = [one["bytes"].encode() if isinstance(one, dict) else one for one in row]
            database.execute(f"INSERT INTO {name} ({columns}) VALUES ({marks})", values)
