"""Opens a ledger by its address: the URL of a Postgres database, or the path of a SQLite file."""

from __future__ import annotations

from ferrule.run.ledger.sql import SqlLedger

_POSTGRES = ("postgresql://", "postgres://")


async def open_ledger(address: str, *, must_exist: bool = False) -> SqlLedger:
    """Open the ledger at an address. With `must_exist` a missing SQLite file is an error, not created."""
    if address.startswith(_POSTGRES):
        from ferrule.run.ledger.postgres import PostgresLedger

        return await PostgresLedger.connect(address)
    from ferrule.run.ledger.sqlite import SqliteLedger

    return await SqliteLedger.connect(address, must_exist=must_exist)
