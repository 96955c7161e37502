"""The tables of a ledger in PostgreSQL: made, raised to this version, and divided into weeks.

A connection is one of psycopg's, which `postgres` opens. So nothing here needs psycopg before there is one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from ferrule.errors import LedgerError
from ferrule.run.ledger import partitions
from ferrule.run.ledger.partitions import Partition, day_of
from ferrule.run.ledger.search_sql import HAS_MESSAGES, LIST_STATEMENTS, POSTGRES_SEARCHES
from ferrule.run.ledger.search_words import postgres_words
from ferrule.run.ledger.tables import INDEXES, LATER_INDEXES, NEW_COLUMNS, TABLES, VERSION, Dialect, Index
from ferrule.run.ledger.transaction import QueryResult, Statement, Transaction, execute
from ferrule.run.ledger.upgrade import find_version, note_version

if TYPE_CHECKING:
    from psycopg import AsyncConnection

T = TypeVar("T")
Connection: TypeAlias = "AsyncConnection[tuple[Any, ...]]"

DIALECT = Dialect(
    placeholder="%s",
    integer="BIGINT",
    real="DOUBLE PRECISION",
    blob="BYTEA",
    unless_exists="IF NOT EXISTS ",
    half_full=" WITH (fillfactor = 70)",
)
STATEMENTS = {name: text.encode() for name, text in DIALECT.statements(LIST_STATEMENTS, POSTGRES_SEARCHES).items()}
# New entries are collected and sorted in together. A short list of them is short to search, and quick to sort in.
_AS_GIN = "USING gin (({words}), (ARRAY[{of}])) WITH (fastupdate = on, gin_pending_list_limit = 256)"
WORD_INDEXES = (
    Index("ferrule_message_words", "ferrule_message", _AS_GIN.format(words=postgres_words("body"), of="conversation")),
    Index(
        "ferrule_traced_request_words",
        "ferrule_traced_request",
        f"{_AS_GIN.format(words=postgres_words('messages'), of='trace')} WHERE {HAS_MESSAGES.format('messages')}",
    ),
)
BUILT_LATER = (*LATER_INDEXES, *WORD_INDEXES)
STATEMENTS["has_ledger"] = (
    b"SELECT to_regclass('ferrule_ledger') IS NOT NULL AND COALESCE((SELECT relkind = 'p' FROM pg_class "
    b"WHERE oid = to_regclass('ferrule_audit')), false)"
)
# Two processes that create the tables at the same time would fail. The number is arbitrary, but must not change.
_TABLES_LOCK = 7_305_801_174
LOCK_TABLES = f"SELECT pg_advisory_xact_lock({_TABLES_LOCK})".encode()
# What prepares the next weeks gives up early, and is repeated later: others must not wait behind it.
SHORT_WAIT = b"SET LOCAL lock_timeout = '2s'"
_MAX_BYTES_WHEN_OPENED = 256_000_000
"""How large a ledger of an earlier version may be to be raised when it is opened: its writers wait meanwhile."""


def has_tables() -> Transaction[bool]:
    if not (yield from execute("has_ledger")).rows[0][0]:
        return False
    return [row[0] for row in (yield from execute("versions")).rows] == [VERSION]


async def make_tables(connection: Connection, *, is_migration: bool) -> int | None:
    """Make the tables, or raise them to this version. Returns the version that they had; None if they were made.

    Of two processes that open a ledger at once, the second finds the tables made. It must leave them alone: the first
    writes to them by then, and statements that alter several tables would end in a deadlock with its steps.
    """
    (size,) = await row_of(connection, partitions.TABLE_BYTES.encode())
    if size > _MAX_BYTES_WHEN_OPENED and not is_migration:
        raise LedgerError(
            "this ledger is large and has the form of an earlier version",
            code="ledger_migration_needed",
            hint="Run `ferrule ledger migrate --ledger ADDRESS` once; other processes may write meanwhile.",
        )
    async with connection.transaction():
        # Whatever the connection's own level: what is read after the wait for the lock must be what is there then.
        await connection.execute(b"SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
        await connection.execute(LOCK_TABLES)
        if await run_statements(connection, has_tables()):
            return None
        await _execute_all(connection, TABLES)
        before = await run_statements(connection, find_version())
        for table in NEW_COLUMNS:
            await _execute_all(connection, DIALECT.new_columns(table))
        await _execute_all(connection, INDEXES)
        for table in partitions.KEYS:
            await _partition_table(connection, table)
        if before is None:
            await _execute_all(connection, [index.text for index in BUILT_LATER])
        await run_statements(connection, note_version(before))
    return before


async def prepare_upgrade(connection: Connection, note: Callable[[str], None]) -> None:
    """Do what takes long in a ledger of version 5 or 6, each statement by itself. It may be repeated at any point."""
    ((is_ready,),) = await rows_of(
        connection, "SELECT to_regclass('ferrule_trace') IS NOT NULL AND to_regclass('ferrule_delivery') IS NOT NULL"
    )
    if not is_ready:
        return
    note("adding columns")
    for table in NEW_COLUMNS:
        await _execute_all(connection, DIALECT.new_columns(table))
    for (name,) in await rows_of(connection, partitions.BROKEN_INDEXES):
        await connection.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {name}".encode())
    for text in INDEXES:
        if text.startswith("CREATE INDEX"):
            note(f"building {text.split()[5]}")
            await connection.execute(text.replace("CREATE INDEX", "CREATE INDEX CONCURRENTLY", 1).encode())
    day = day_of(time.time())
    (last_born,) = await row_of(connection, partitions.LAST_BORN.encode())
    end = partitions.early_end(day, last_born, is_empty=False)
    for table in partitions.KEYS:
        plain = f"SELECT 1 FROM pg_class WHERE oid = to_regclass('{table}') AND relkind = 'r'"
        if await rows_of(connection, plain):
            note(f"preparing {table}")
            for text in partitions.preparation(table, end):
                await connection.execute(text.encode())


async def _partition_table(connection: Connection, table: str) -> None:
    if (await row_of(connection, partitions.IS_PARTITIONED.format(table=table).encode()))[0]:
        return
    day = day_of(time.time())
    await connection.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE".encode())
    (has_rows,) = await row_of(connection, partitions.HAS_ROWS.format(table=table).encode())
    (last_born,) = await row_of(connection, partitions.LAST_BORN.encode())
    end = partitions.early_end(day, last_born, is_empty=not has_rows)
    for text in (*partitions.conversion(table, end), partitions.cleanup(table)):
        await connection.execute(text.encode())
    await make_weeks(connection, table, day)


async def make_weeks(connection: Connection, table: str, day: int) -> None:
    for week in partitions.missing_weeks(await find_partitions(connection, table), day):
        for text in partitions.week_creation(table, week):
            await connection.execute(text.encode())


async def find_partitions(connection: Connection, table: str) -> list[Partition]:
    cursor = await connection.execute(partitions.FIND_PARTITIONS.format(table=table).encode())
    return [partitions.read_partition(table, name, bounds) for name, bounds in await cursor.fetchall()]


async def lock_table(connection: Connection, table: str) -> None:
    """Lock a table against everything until the end of the transaction, or give up early."""
    await connection.execute(SHORT_WAIT)
    await connection.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE".encode())


async def rows_of(connection: Connection, text: str) -> list[tuple[Any, ...]]:
    return await (await connection.execute(text.encode())).fetchall()


async def row_of(connection: Connection, text: bytes) -> tuple[Any, ...]:
    row = await (await connection.execute(text)).fetchone()
    assert row is not None
    return row


async def _execute_all(connection: Connection, texts: Sequence[str]) -> None:
    for text in DIALECT.schema(texts):
        await connection.execute(text.encode())


async def run_statements(connection: Connection, transaction: Transaction[T]) -> T:
    """Run a transaction without steps on one connection."""
    try:
        wanted = next(transaction)
        while True:
            assert isinstance(wanted, Statement)
            wanted = transaction.send(await execute_statement(connection, wanted))
    except StopIteration as done:
        return done.value


async def execute_statement(connection: Connection, statement: Statement) -> QueryResult:
    cursor = await connection.execute(STATEMENTS[statement.name], statement.values)
    # Only a statement that reads has a description of its columns.
    return QueryResult(await cursor.fetchall() if cursor.description else [], cursor.rowcount)
