"""PostgresLedger: the ledger for many machines, in PostgreSQL 13 or newer. The only file that imports psycopg.

Every change first locks its conversation's row. So changes to one conversation run one after another, and changes to
different ones in parallel, over a small pool of connections.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from ferrule.errors import LedgerError, LedgerUnavailableError
from ferrule.run.ledger.sql import SqlLedger, check_version, unstorable_error
from ferrule.run.ledger.tables import VERSION, Dialect
from ferrule.run.ledger.transaction import QueryResult, Statement, Transaction, execute

if TYPE_CHECKING:
    from psycopg import AsyncConnection

T = TypeVar("T")
Connection: TypeAlias = "AsyncConnection[tuple[Any, ...]]"

DIALECT = Dialect(placeholder="%s", integer="BIGINT", real="DOUBLE PRECISION", blob="BYTEA", for_update=" FOR UPDATE")
_STATEMENTS = {name: text.encode() for name, text in DIALECT.statements().items()}
_STATEMENTS["has_ledger"] = b"SELECT to_regclass('ferrule_ledger') IS NOT NULL"
# Two processes that create the tables at the same time would fail. The number is arbitrary, but must not change.
_TABLES_LOCK = 7_305_801_174
# "started" must be on disk before the effect begins. Stricter settings than "on" are kept.
_DURABLE = b"SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
# A process that is frozen inside a transaction, such as one on a machine that sleeps, holds its locks for as long as it
# sleeps, and nobody could take its conversation over. So the server ends such a transaction. Another limit is kept.
_NO_LOCKS_ASLEEP = (
    b"SELECT set_config('idle_in_transaction_session_timeout', '5s', false) "
    b"WHERE current_setting('idle_in_transaction_session_timeout') = '0'"
)


class PostgresLedger(SqlLedger):
    """A ledger in PostgreSQL. Create it with `PostgresLedger.connect`."""

    def __init__(self, dsn: str, connections: int) -> None:
        self._dsn = dsn
        self._slots = asyncio.Semaphore(connections)
        self._free: list[Connection] = []
        self._has_tables = False
        self._is_closed = False

    @staticmethod
    async def connect(dsn: str, *, connections: int = 4, must_answer: bool = True) -> PostgresLedger:
        """Open the ledger in this database. Up to `connections` transactions run at the same time.

        With `must_answer=False` a database that cannot be reached is connected, and its tables are made, on first use.
        """
        ledger = PostgresLedger(dsn, connections)
        try:
            await ledger._make_tables()
        except LedgerUnavailableError:
            if must_answer:
                raise
        return ledger

    async def close(self) -> None:
        self._is_closed = True
        while self._free:
            await self._free.pop().close()

    async def _make_tables(self) -> None:
        # CREATE TABLE IF NOT EXISTS takes locks even if the table exists, and running transactions would have to wait.
        if not await self._commit(_has_tables()):
            await self._commit(check_version(), [f"SELECT pg_advisory_xact_lock({_TABLES_LOCK})", *DIALECT.tables()])
        self._has_tables = True

    async def _transact(self, transaction: Transaction[T]) -> T:
        if not self._has_tables:
            await self._make_tables()
        return await self._commit(transaction)

    async def _commit(self, transaction: Transaction[T], setup: Sequence[str] = ()) -> T:
        psycopg = _psycopg()
        if self._is_closed:
            raise LedgerError("the ledger is closed", code="ledger_closed")
        async with self._slots:
            try:
                connection = self._free.pop() if self._free else await self._connect()
                try:
                    async with connection.transaction():
                        for text in setup:
                            await connection.execute(text.encode())
                        return await _run(connection, transaction)
                finally:
                    await self._release(connection)
            except (
                psycopg.OperationalError,
                psycopg.InterfaceError,
                psycopg.errors.IdleInTransactionSessionTimeout,
            ) as fault:
                raise LedgerUnavailableError(f"the ledger's database: {fault}", hint="Try again.") from fault
            except (UnicodeEncodeError, psycopg.DataError) as fault:
                raise unstorable_error() from fault
            except psycopg.Error as fault:
                raise LedgerError(f"the ledger's database: {fault}", code="ledger_damaged") from fault

    async def _connect(self) -> Connection:
        connection: Connection = await _psycopg().AsyncConnection.connect(self._dsn, autocommit=True)
        # Each statement must see what was committed before it, also after it has waited for a row's lock.
        await connection.set_isolation_level(_psycopg().IsolationLevel.READ_COMMITTED)
        await connection.execute(_DURABLE)
        await connection.execute(_NO_LOCKS_ASLEEP)
        return connection

    async def _release(self, connection: Connection) -> None:
        """Return a connection to the pool. One that broke, or is inside a transaction, is closed instead."""
        is_idle = connection.info.transaction_status == _psycopg().pq.TransactionStatus.IDLE
        if is_idle and not self._is_closed:
            self._free.append(connection)
        else:
            await connection.close()


def _has_tables() -> Transaction[bool]:
    if not (yield from execute("has_ledger")).rows[0][0]:
        return False
    return [row[0] for row in (yield from execute("versions")).rows] == [VERSION]


async def _run(connection: Connection, transaction: Transaction[T]) -> T:
    """Run a transaction: execute each statement that it yields and send back the result."""
    try:
        statement = next(transaction)
        while True:
            statement = transaction.send(await _execute(connection, statement))
    except StopIteration as done:
        return done.value


async def _execute(connection: Connection, statement: Statement) -> QueryResult:
    cursor = await connection.execute(_STATEMENTS[statement.name], statement.values)
    # Only a statement that reads has a description of its columns.
    return QueryResult(await cursor.fetchall() if cursor.description else [], cursor.rowcount)


def _psycopg() -> Any:
    try:
        import psycopg
    except ImportError:
        raise LedgerError(
            "a ledger in Postgres needs psycopg", code="not_installed", hint='pip install "ferrule[postgres]"'
        ) from None
    return psycopg
