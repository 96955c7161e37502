"""Which ledger a setting means: the address of a Postgres database, or else the path of a SQLite file."""

from __future__ import annotations

from ferrule.run.ledger.sql import SqlLedger

_POSTGRES = ("postgresql://", "postgres://")


async def ledger_at(where: str, *, must_exist: bool = False) -> SqlLedger:
    """The ledger there. `must_exist` refuses to begin a new SQLite file."""
    if where.startswith(_POSTGRES):
        from ferrule.run.ledger.postgres import PostgresLedger

        return await PostgresLedger.at(where)
    from ferrule.run.ledger.sqlite import SqliteLedger

    return await SqliteLedger.at(where, must_exist=must_exist)
