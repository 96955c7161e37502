"""Build the indexes that a ledger of an earlier version lacks, while gateways write to it. Independent of the driver.

`CREATE INDEX` alone would stop everybody who writes until the index is complete, which may take minutes. `CREATE INDEX
CONCURRENTLY` does not. It cannot be part of a transaction, and if its process ends early it leaves an index that is
marked as not valid. Such an index is removed and built again by the next process that opens the ledger.

A table that is partitioned cannot have an index built that way. Each of its partitions can: then the index of the whole
table is made without any partition, which takes no time, and those of the partitions are attached to it. A partition
that is created later gets the index by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ferrule.run.ledger.tables import Index

# Arbitrary, but must not change: of several processes that open a ledger at once, one builds.
_BUILD_LOCK = 7_305_801_175
_VALID = (
    "SELECT c.relname, i.indisvalid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid "
    "WHERE i.indrelid = ANY(ARRAY[{tables}])"
)
_PARTITIONS = (
    "SELECT h.inhrelid::regclass::text, c.relname FROM pg_inherits h JOIN pg_class c ON c.oid = h.inhrelid "
    "WHERE h.inhparent = to_regclass('{table}') ORDER BY 1"
)
_IS_PARTITIONED = "SELECT relkind = 'p' FROM pg_class WHERE oid = to_regclass('{table}')"


async def missing_indexes(connection: Any, indexes: Sequence[Index]) -> list[Index]:
    """Return those that do not exist, or are not complete."""
    tables = ", ".join(sorted({f"to_regclass('{index.table}')" for index in indexes}))
    valid = {name for name, is_valid in await _rows(connection, _VALID.format(tables=tables)) if is_valid}
    return [index for index in indexes if index.name not in valid]


async def build_indexes(connection: Any, indexes: Sequence[Index], *, is_pooled: bool) -> bool:
    """Build indexes on a connection that is used for nothing else. False if another process is building them.

    Through a connection pool neither a setting nor a lock can belong to this process: there the statements must be
    allowed to take long, and of two processes that build at once one may fail.
    """
    if not is_pooled:
        await connection.execute(b"SET statement_timeout = 0")
        ((has_lock,),) = await _rows(connection, f"SELECT pg_try_advisory_lock({_BUILD_LOCK})")
        if not has_lock:
            return False
    for index in await missing_indexes(connection, indexes):
        ((is_partitioned,),) = await _rows(connection, _IS_PARTITIONED.format(table=index.table))
        if is_partitioned:
            await _build_in_partitions(connection, index)
        else:
            await _build(connection, index.name, index.table, index.columns)
        if index.replaces:
            way = "" if is_partitioned else "CONCURRENTLY "
            await connection.execute(f"DROP INDEX {way}IF EXISTS {index.replaces}".encode())
    return True


async def _build(connection: Any, name: str, table: str, columns: str) -> None:
    """Build an index that does not exist, or is not complete."""
    await connection.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {name}".encode())
    await connection.execute(f"CREATE INDEX CONCURRENTLY {name} ON {table} {columns}".encode())


async def _build_in_partitions(connection: Any, index: Index) -> None:
    await connection.execute(f"CREATE INDEX IF NOT EXISTS {index.name} ON ONLY {index.table} {index.columns}".encode())
    for partition, short_name in await _rows(connection, _PARTITIONS.format(table=index.table)):
        valid = dict(await _rows(connection, _VALID.format(tables=f"'{partition}'::regclass")))
        name = f"{short_name}_{index.name.removeprefix(f'{index.table}_')}"
        if not valid.get(name):
            await _build(connection, name, partition, index.columns)
        # Attaching one that is attached changes nothing.
        await connection.execute(f"ALTER INDEX {index.name} ATTACH PARTITION {name}".encode())


async def _rows(connection: Any, text: str) -> list[tuple[Any, ...]]:
    return await (await connection.execute(text.encode())).fetchall()
