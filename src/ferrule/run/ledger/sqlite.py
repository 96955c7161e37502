"""SqliteLedger: the ledger for one machine, in a SQLite file. Everything runs in one thread, off the event loop.

It uses a write-ahead log with `synchronous=FULL`, so that commits survive a power cut; SQLite's usual setting for that
log (NORMAL) does not guarantee it. Transactions begin with BEGIN IMMEDIATE, so that none reads first and then finds
that it cannot write.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from ferrule.errors import LedgerError, LedgerUnavailableError
from ferrule.run.ledger.sql import SqlLedger, check_version, unstorable_error
from ferrule.run.ledger.tables import Dialect
from ferrule.run.ledger.transaction import QueryResult, Statement, Transaction

T = TypeVar("T")

DIALECT = Dialect(placeholder="?", integer="INTEGER", real="REAL", blob="BLOB", for_update="")
_STATEMENTS = DIALECT.statements()


class SqliteLedger(SqlLedger):
    """A ledger in a SQLite file. Create it with `SqliteLedger.connect`."""

    def __init__(self, path: Path, wait: float) -> None:
        self._path = path
        self._wait = wait
        self._thread = ThreadPoolExecutor(1, "ferrule-ledger")
        self._connection: sqlite3.Connection | None = None

    @staticmethod
    async def connect(path: str | Path, *, must_exist: bool = False, wait: float = 10.0) -> SqliteLedger:
        """Open the ledger in this file. A transaction waits up to `wait` seconds for those of other processes."""
        ledger = SqliteLedger(Path(path), wait)
        try:
            await ledger._in_thread(lambda: ledger._connect(must_exist))
        except LedgerError:
            await ledger.close()
            raise
        return ledger

    async def close(self) -> None:
        if self._connection is not None:
            await self._in_thread(self._connection.close)
            self._connection = None
        self._thread.shutdown()

    async def _transact(self, transaction: Transaction[T]) -> T:
        if self._connection is None:
            raise LedgerError("the ledger is closed", code="ledger_closed")
        # If the task is cancelled here, the thread still completes the transaction.
        connection = self._connection
        return await self._in_thread(lambda: run_in_transaction(connection, transaction))

    async def _in_thread(self, function: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, function)
        except sqlite3.OperationalError as fault:
            raise LedgerUnavailableError(f"{self._path.name}: {fault}", hint="Try again.") from fault
        except UnicodeEncodeError as fault:
            raise unstorable_error() from fault
        except sqlite3.Error as fault:
            raise LedgerError(f"{self._path.name}: {fault}", code="ledger_damaged") from fault

    def _connect(self, must_exist: bool) -> None:
        if must_exist and not self._path.is_file():
            raise LedgerError(f"there is no ledger {self._path.name}", code="unknown_ledger")
        connection = sqlite3.connect(self._path, timeout=self._wait, isolation_level=None)
        self._connection = connection
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        run_in_transaction(connection, check_version(), DIALECT.tables())


def run_in_transaction(connection: sqlite3.Connection, transaction: Transaction[T], setup: Sequence[str] = ()) -> T:
    connection.execute("BEGIN IMMEDIATE")
    try:
        for text in setup:
            connection.execute(text)
        result = _run(connection, transaction)
        connection.execute("COMMIT")
        return result
    finally:
        # Still open only if something was raised.
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _run(connection: sqlite3.Connection, transaction: Transaction[T]) -> T:
    """Run a transaction: execute each statement that it yields and send back the result."""
    try:
        statement = next(transaction)
        while True:
            statement = transaction.send(_execute(connection, statement))
    except StopIteration as done:
        return done.value


def _execute(connection: sqlite3.Connection, statement: Statement) -> QueryResult:
    cursor = connection.execute(_STATEMENTS[statement.name], statement.values)
    return QueryResult(cursor.fetchall(), cursor.rowcount)
