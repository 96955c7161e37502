"""Opens a ledger by its address: the URL of a Postgres database, or the path or URL of a SQLite file; or a list."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from typing import overload

from ferrule.errors import DefinitionError
from ferrule.run.ledger.sharded_ledger import ShardedLedger
from ferrule.run.ledger.sql import SqlLedger

CONNECTIONS = 4
"""How many connections a process opens to a Postgres database, unless it is configured otherwise."""

_POSTGRES = ("postgresql://", "postgres://")
# As in SQLAlchemy: sqlite:///file.db is relative to the current directory, sqlite:////var/file.db is absolute.
_SQLITE = "sqlite:///"


Addresses = str | Sequence[str]
"""One address, or a list of them for one ledger over several databases."""


@overload
async def open_ledger(
    address: str, *, must_exist: bool = False, must_answer: bool = True, connections: int = CONNECTIONS
) -> SqlLedger: ...


@overload
async def open_ledger(
    address: Addresses, *, must_exist: bool = False, must_answer: bool = True, connections: int = CONNECTIONS
) -> SqlLedger | ShardedLedger: ...


async def open_ledger(
    address: Addresses, *, must_exist: bool = False, must_answer: bool = True, connections: int = CONNECTIONS
) -> SqlLedger | ShardedLedger:
    """Open the ledger at an address. With `must_exist` a missing SQLite file is an error, not created.

    With `must_answer=False` a Postgres server that cannot be reached is connected on first use. Of a list, also with
    one entry, none must answer: what is in the others can be used meanwhile. `connections` are those that it opens to
    each Postgres database.
    """
    if not isinstance(address, str):
        return await _open_shards(address, must_exist=must_exist, connections=connections)
    if address.startswith(_POSTGRES):
        from ferrule.run.ledger.postgres import PostgresLedger

        return await PostgresLedger.connect(address, must_answer=must_answer, connections=connections)
    from ferrule.run.ledger.sqlite import SqliteLedger

    scheme = re.match(r"\w+://", address)
    if scheme and not address.startswith(_SQLITE):
        raise DefinitionError(
            f"a ledger cannot be opened at {scheme[0]}...",
            hint="Write postgresql://..., sqlite:///FILE or a file's path.",
        )
    return await SqliteLedger.connect(address.removeprefix(_SQLITE), must_exist=must_exist)


async def _open_shards(addresses: Sequence[str], *, must_exist: bool, connections: int) -> ShardedLedger:
    if len(set(addresses)) < len(addresses):
        raise DefinitionError("a list of ledgers names a database twice", hint="Name each database once.")
    async with AsyncExitStack() as stack:
        ledgers: list[SqlLedger] = []
        for address in addresses:
            ledger = await _open_shard(address, must_exist=must_exist, connections=connections)
            stack.push_async_callback(ledger.close)
            ledgers.append(ledger)
        sharded = ShardedLedger(ledgers)
        stack.pop_all()
        return sharded


async def _open_shard(address: str, *, must_exist: bool, connections: int) -> SqlLedger:
    if address.startswith(_POSTGRES):
        from ferrule.run.ledger.postgres import PostgresLedger

        # It is connected on first use, so that one that is silent delays nobody else.
        return PostgresLedger(address, connections)
    return await open_ledger(address, must_exist=must_exist)


async def migrate_ledger(address: str, note: Callable[[str], None]) -> SqlLedger:
    """Raise an existing ledger to this version and open it. In Postgres, others may use it meanwhile."""
    if address.startswith(_POSTGRES):
        from ferrule.run.ledger.postgres import PostgresLedger

        return await PostgresLedger.migrate(address, note)
    note("raising the tables")
    return await open_ledger(address, must_exist=True)
