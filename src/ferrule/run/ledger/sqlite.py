"""SqliteLedger: the ledger for one machine, in a SQLite file. Everything runs in one thread, off the event loop.

It uses a write-ahead log with `synchronous=FULL`, so that commits survive a power cut; SQLite's usual setting for that
log (NORMAL) does not guarantee it. Transactions begin with BEGIN IMMEDIATE, so that none reads first and then finds
that it cannot write.

A step is one transaction in the thread, and nothing waits inside it for the program. A process that is stopped just
then keeps the file locked until it continues: SQLite runs inside the process, and no server could end the transaction.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from ferrule.errors import LedgerError, LedgerUnavailableError
from ferrule.run.ledger.heartbeat import Beat
from ferrule.run.ledger.search_sql import LIST_STATEMENTS, SQLITE_SEARCHES
from ferrule.run.ledger.search_words import fts5_words, search_text
from ferrule.run.ledger.sql import SqlLedger, unstorable_error
from ferrule.run.ledger.sqlite_search import BATCH, WORD_TABLE, add_words, has_fts5, has_waiting, make_word_tables
from ferrule.run.ledger.step import Step
from ferrule.run.ledger.step_sql import sqlite_write
from ferrule.run.ledger.tables import INDEXES, LATER_INDEXES, NEW_COLUMNS, TABLES, VERSION, Dialect
from ferrule.run.ledger.transaction import QueryResult, Statement, Transaction, execute
from ferrule.run.ledger.upgrade import BATCHES_WHEN_OPENED, fill_conversations, find_version, note_version

T = TypeVar("T")
_log = logging.getLogger(__name__)

DIALECT = Dialect(placeholder="?", integer="INTEGER", real="REAL", blob="BLOB", unless_exists="", half_full="")
_STATEMENTS = DIALECT.statements(LIST_STATEMENTS, SQLITE_SEARCHES)
_STEPS_UNTIL_WORDS = 100
"""After how many transactions the words of what they wrote are added to the index."""
_BATCHES_BEFORE_SEARCH = 3
_BUSY_SECONDS = 0.01


class SqliteLedger(SqlLedger):
    """A ledger in a SQLite file. Create it with `SqliteLedger.connect`."""

    def __init__(self, path: Path, wait: float) -> None:
        super().__init__()
        self._path = path
        self._wait = wait
        self._set_wait = f"PRAGMA busy_timeout = {round(wait * 1000)}"
        self._thread = ThreadPoolExecutor(1, "ferrule-ledger")
        self._connection: sqlite3.Connection | None = None
        self._has_fts5 = False
        self._transactions = 0
        self._words_task: asyncio.Future[None] | None = None

    @staticmethod
    async def connect(path: str | Path, *, must_exist: bool = False, wait: float = 10.0) -> SqliteLedger:
        """Open the ledger in this file. A transaction waits up to `wait` seconds for those of other processes."""
        ledger = SqliteLedger(Path(path), wait)
        try:
            await ledger._in_thread(lambda: ledger._connect(must_exist))
            ledger._add_words_behind()
        except LedgerError:
            await ledger.close()
            raise
        return ledger

    async def close(self) -> None:
        await self._stop_keeping()
        if self._connection is not None:
            connection, self._connection = self._connection, None
            if self._words_task is not None:
                await self._words_task
            await self._in_thread(connection.close)
        self._thread.shutdown()

    async def _transact(self, transaction: Transaction[T], *, is_atomic: bool = False) -> T:
        if self._connection is None:
            raise LedgerError("the ledger is closed", code="ledger_closed")
        # If the task is cancelled here, the thread still completes the transaction.
        connection = self._connection
        self._transactions += 1
        if self._transactions >= _STEPS_UNTIL_WORDS:
            self._add_words_behind()
        return await self._in_thread(lambda: run_transaction(connection, transaction, is_atomic=is_atomic))

    def _open_beat(self) -> Beat:
        return _SqliteBeat(self._path, self._wait)

    def _add_words_behind(self) -> None:
        """Add what waits to the index of words, one batch after another, between the transactions of others."""
        self._transactions = 0
        if self._has_fts5 and (self._words_task is None or self._words_task.done()):
            self._words_task = asyncio.ensure_future(self._add_words())

    async def _add_words(self) -> None:
        try:
            while self._connection is not None and await self._in_thread(self._add_batch_unless_busy):
                # Others are in the thread's queue by now.
                await asyncio.sleep(0)
        except LedgerError as fault:
            # What waits stays there, and the next search adds it, or reads it as it is.
            _log.warning("the words of some messages are not in the index yet: %s", fault)

    def _add_batch_unless_busy(self) -> bool:
        """Add a batch, unless another process writes just now: nothing else of this one must wait for that."""
        connection = self._connection
        if connection is None:
            return False
        connection.execute("PRAGMA busy_timeout = 0")
        try:
            return self._add_batch()
        except sqlite3.OperationalError as fault:
            if not _is_busy(fault):
                raise
            return False
        finally:
            connection.execute(self._set_wait)

    def _add_batch(self) -> bool:
        """Add a batch. Returns whether more waits than that: what has come since is for the next time."""
        connection = self._connection
        if connection is None or not has_waiting(connection):
            return False
        with _transaction(connection):
            return add_words(connection) == BATCH

    async def _search_words(self, text: str) -> str | None:
        if not (text and self._has_fts5):
            return None
        # A ledger of an earlier version has more to add than a search can wait for: then it reads the messages.
        for _ in range(_BATCHES_BEFORE_SEARCH):
            if not await self._in_thread(self._add_batch):
                return fts5_words(search_text(text))
        return None

    async def _forget_words(self) -> None:
        while self._has_fts5 and await self._in_thread(self._add_batch):
            # Others are in the thread's queue by now.
            await asyncio.sleep(0)

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
        _use_write_ahead_log(connection, self._wait)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        make_tables(connection)
        self._has_fts5 = has_fts5(connection)
        if self._has_fts5 and not _has(connection, WORD_TABLE):
            with _transaction(connection):
                make_word_tables(connection)


class _SqliteBeat:
    def __init__(self, path: Path, wait: float) -> None:
        self._path = path
        self._connection = sqlite3.connect(path, timeout=wait, isolation_level=None)
        # It need not survive a power cut: the process does not either.
        self._connection.execute("PRAGMA synchronous = NORMAL")

    def __call__(self, owner: str, until: float) -> None:
        try:
            self._connection.execute(_STATEMENTS["beat"], (owner, until))
        except sqlite3.Error as fault:
            raise LedgerUnavailableError(f"{self._path.name}: {fault}") from fault

    def close(self) -> None:
        self._connection.close()


def _use_write_ahead_log(connection: sqlite3.Connection, wait: float) -> None:
    """Change a new file to a write-ahead log. SQLite does not wait for another process that does so: here we do."""
    give_up = time.monotonic() + wait
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as fault:
            if not _is_busy(fault) or time.monotonic() > give_up:
                raise
            time.sleep(_BUSY_SECONDS)


def _is_busy(fault: sqlite3.OperationalError) -> bool:
    # The code's upper bits say why it is busy.
    return fault.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY


def make_tables(connection: sqlite3.Connection) -> None:
    """Make the tables, or raise them to the version of this release.

    What is there is only read: there is one lock for everyone who writes, and a process that is stopped may have it.
    """
    before = None if not _has(connection, "ferrule_ledger") else _run(connection, find_version())
    if before != VERSION or not _is_complete(connection):
        before = _make_all(connection)
    last = ""
    for _ in range(BATCHES_WHEN_OPENED):
        if before is None or not _run(connection, execute("unfilled", 1, last, 1)).rows:
            return
        _, last = run_transaction(connection, fill_conversations(last), is_atomic=True)


def _is_complete(connection: sqlite3.Connection) -> bool:
    """Whether all tables, columns and indexes of this release are there, and none that it replaces."""
    names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    texts = (*TABLES, *INDEXES, *(index.text for index in LATER_INDEXES))
    # "CREATE UNIQUE INDEX IF NOT EXISTS name ...", "DROP INDEX IF EXISTS name".
    made = {_name_in(text) for text in texts if text.startswith("CREATE")}
    dropped = {_name_in(text) for text in texts if text.startswith("DROP")}
    dropped |= {index.replaces for index in LATER_INDEXES if index.replaces}
    return made <= names and not dropped & names and not any(_missing_columns(connection, one) for one in NEW_COLUMNS)


def _name_in(text: str) -> str:
    return text.partition("EXISTS ")[2].split()[0]


def _missing_columns(connection: sqlite3.Connection, table: str) -> list[str]:
    """Return the statements that add the columns that a table lacks."""
    columns = connection.execute("SELECT name FROM pragma_table_info(?)", (table,)).fetchall()
    return DIALECT.new_columns(table, [name for (name,) in columns])


def _make_all(connection: sqlite3.Connection) -> int | None:
    """Make what is missing. Returns the version that there was; None if the ledger is new."""
    with _transaction(connection):
        _execute_all(connection, TABLES)
        before = _run(connection, find_version())
        for table in NEW_COLUMNS:
            for text in _missing_columns(connection, table):
                connection.execute(text)
        _execute_all(connection, INDEXES)
        _execute_all(connection, [index.text for index in LATER_INDEXES])
        _execute_all(
            connection, [f"DROP INDEX IF EXISTS {index.replaces}" for index in LATER_INDEXES if index.replaces]
        )
        _run(connection, note_version(before))
    return before


def run_transaction(connection: sqlite3.Connection, transaction: Transaction[T], *, is_atomic: bool = False) -> T:
    """Run a transaction, each statement and step by itself, or with `is_atomic` all its statements in one."""
    if not is_atomic:
        return _run(connection, transaction)
    with _transaction(connection):
        return _run(connection, transaction)


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Generator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    finally:
        # Still open only if something was raised.
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _has(connection: sqlite3.Connection, table: str) -> bool:
    return bool(connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchall())


def _execute_all(connection: sqlite3.Connection, texts: Sequence[str]) -> None:
    for text in DIALECT.schema(texts):
        connection.execute(text)


def _run(connection: sqlite3.Connection, transaction: Transaction[T]) -> T:
    """Run a transaction: execute each statement and step that it yields, and send back the result."""
    try:
        wanted = next(transaction)
        while True:
            wanted = transaction.send(_execute(connection, wanted))
    except StopIteration as done:
        return done.value


def _execute(connection: sqlite3.Connection, wanted: Statement | Step) -> QueryResult:
    if isinstance(wanted, Step):
        with _transaction(connection):
            return QueryResult(count=int(sqlite_write(connection, wanted)))
    cursor = connection.execute(_STATEMENTS[wanted.name], wanted.values)
    return QueryResult(cursor.fetchall(), cursor.rowcount)
