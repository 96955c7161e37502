"""The ledger for one machine: a SQLite file. All work runs in one thread, so that the event loop is never held up.

Write-ahead log with `synchronous=FULL`: what was committed outlives a power cut, which SQLite's usual setting for that
log (NORMAL) does not promise. BEGIN IMMEDIATE, so that no transaction reads first and finds out later that it cannot
write.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from ferrule.errors import LedgerError, LedgerUnavailableError
from ferrule.run.ledger.sql import SqlLedger, admitted, unkept
from ferrule.run.ledger.tables import Dialect
from ferrule.run.ledger.transaction import Answer, Statement, Work

T = TypeVar("T")

DIALECT = Dialect(mark="?", integer="INTEGER", real="REAL", blob="BLOB", for_update="")
_STATEMENTS = DIALECT.statements()


class SqliteLedger(SqlLedger):
    """Made by `SqliteLedger.at`."""

    def __init__(self, path: Path, wait: float) -> None:
        self._path = path
        self._wait = wait
        self._thread = ThreadPoolExecutor(1, "ferrule-ledger")
        self._connection: sqlite3.Connection | None = None

    @staticmethod
    async def at(path: str | Path, *, must_exist: bool = False, wait: float = 10.0) -> SqliteLedger:
        """The ledger in this file. `wait` is for how many seconds a transaction waits for another process's."""
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

    async def _transact(self, work: Work[T]) -> T:
        if self._connection is None:
            raise LedgerError("the ledger is closed", code="ledger_closed")
        # A task that is cancelled here leaves the transaction to its thread, which ends it as if nothing had happened.
        connection = self._connection
        return await self._in_thread(lambda: in_transaction(connection, work))

    async def _in_thread(self, function: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, function)
        except sqlite3.OperationalError as fault:
            raise LedgerUnavailableError(f"{self._path.name}: {fault}", hint="Try again.") from fault
        except UnicodeEncodeError as fault:
            raise unkept() from fault
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
        in_transaction(connection, admitted(), DIALECT.tables())


def in_transaction(connection: sqlite3.Connection, work: Work[T], first: Sequence[str] = ()) -> T:
    connection.execute("BEGIN IMMEDIATE")
    try:
        for text in first:
            connection.execute(text)
        result = _answered(connection, work)
        connection.execute("COMMIT")
        return result
    finally:
        # Still open only where something was raised.
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _answered(connection: sqlite3.Connection, work: Work[T]) -> T:
    """Hand the work the answer to each of its statements until it is done."""
    try:
        statement = next(work)
        while True:
            statement = work.send(_answer(connection, statement))
    except StopIteration as done:
        return done.value


def _answer(connection: sqlite3.Connection, statement: Statement) -> Answer:
    cursor = connection.execute(_STATEMENTS[statement.name], statement.values)
    return Answer(cursor.fetchall(), cursor.rowcount)
