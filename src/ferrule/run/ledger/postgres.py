"""PostgresLedger: the ledger for several machines, in PostgreSQL 13 or newer. The only file that imports psycopg.

Reads take any of a few connections. Steps are written by one task (`StepWriter`): those that arrive while a statement
is on its way go together into the next one, so that many conversations share a commit.

A connection can break after a step was sent and before its answer has come. Whether the step was written is then in the
database: it was if its last audit row has the hash that this process has computed. So the step is sent again, over
another connection. If it was written before, its condition no longer holds, and nothing is written twice; nor is it if
the first statement is still running. A start that was written so may begin its effect, which nobody has begun.

The server ends a statement that is in a deadlock with others, such as one that alters tables. Nothing of it is written
then, and it is sent again.

A connection pool in transaction mode, such as PgBouncer, gives each statement another connection to the server. Then
nothing may be set for a connection or prepared in it. Such a pool is recognized, and neither is done.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from ferrule.errors import LedgerError, LedgerUnavailableError
from ferrule.run.ledger import partitions
from ferrule.run.ledger.heartbeat import Beat
from ferrule.run.ledger.partitions import Drop, Partition, day_of
from ferrule.run.ledger.pool_load import PoolLoad
from ferrule.run.ledger.postgres_indexes import build_indexes, missing_indexes
from ferrule.run.ledger.postgres_tables import (
    BUILT_LATER,
    LOCK_TABLES,
    SHORT_WAIT,
    STATEMENTS,
    WORD_INDEXES,
    Connection,
    execute_statement,
    find_partitions,
    has_tables,
    lock_table,
    make_tables,
    make_weeks,
    prepare_upgrade,
    row_of,
    rows_of,
    run_statements,
)
from ferrule.run.ledger.removal import (
    POSTGRES_REMOVAL,
    POSTGRES_STUB_REMOVAL,
    POSTGRES_SWEEP,
    Removal,
    postgres_removal,
    postgres_stub_removal,
)
from ferrule.run.ledger.retention import BATCH
from ferrule.run.ledger.search_words import search_text
from ferrule.run.ledger.sql import SqlLedger, unstorable_error
from ferrule.run.ledger.step import Step
from ferrule.run.ledger.step_sql import damaged_error, postgres_write
from ferrule.run.ledger.step_writer import StepWriter
from ferrule.run.ledger.transaction import QueryResult, Statement, Transaction
from ferrule.run.ledger.upgrade import BATCHES_WHEN_OPENED, fill_conversations
from ferrule.run.ledger.writes import Kind

if TYPE_CHECKING:
    pass

T = TypeVar("T")
_log = logging.getLogger(__name__)


PROCESS_PREFIX = "ferrule/"
# "started" must be on disk before the effect begins. Stricter settings than "on" are kept.
_DURABLE = b"SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
# Each statement must see what was committed before it, also after it has waited for a row's lock.
_NEWEST = b"SELECT set_config('default_transaction_isolation', 'read committed', false)"
# A process that is frozen inside a transaction of several statements holds its locks for as long as it sleeps. So the
# server ends such a transaction. Another limit is kept.
_NO_LOCKS_ASLEEP = (
    b"SELECT set_config('idle_in_transaction_session_timeout', '5s', false) "
    b"WHERE current_setting('idle_in_transaction_session_timeout') = '0'"
)
# The statements that write steps are always the same few: planning them anew costs more than a better plan saves. They
# find rows by their keys, also where a table was small when they were planned.
_SAME_PLAN = (
    b"SELECT set_config('plan_cache_mode', 'force_generic_plan', false), set_config('enable_seqscan', 'off', false), "
    b"set_config('enable_hashjoin', 'off', false), set_config('enable_mergejoin', 'off', false)"
)
# The last audit row of a step, and the epoch of its conversation now.
_WRITTEN = (
    b"SELECT a.hash, c.epoch FROM ferrule_audit a JOIN ferrule_conversation c ON c.id = a.conversation "
    b"WHERE a.conversation = %s AND a.seq = %s AND a.born IN (0, c.born)"
)
# A batch of events, and the epoch of its conversation now.
_TOLD = (
    b"SELECT e.data, c.epoch FROM ferrule_event e JOIN ferrule_conversation c ON c.id = %s "
    b"WHERE e.response = %s AND e.first = %s AND e.born = %s"
)
_PAUSES = (0.0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
"""Seconds before each further try to send a step: a server that has crashed is back within some of them."""
_STATEMENT_TRIES = 8
"""How often a statement is sent that the server ends because of what others do at the same time."""
_CONNECT_SECONDS = 5.0
"""How long a process that ends waits for a connection that is just being made."""
_SERVER = b"SELECT pg_backend_pid(), current_setting('synchronous_commit')"


class PostgresLedger(SqlLedger):
    """A ledger in PostgreSQL. Create it with `PostgresLedger.connect`."""

    def __init__(self, dsn: str, connections: int) -> None:
        super().__init__()
        self._dsn = dsn
        self._slots = asyncio.Semaphore(connections)
        self._pool_load = PoolLoad(connections)
        self._free: list[Connection] = []
        self._free_writers: list[Connection] = []
        self._has_tables = False
        self._prepared_week = 0
        """The first day of the last week for which the partitions were made."""
        self._has_words = False
        self._is_closed = False
        self._builder: asyncio.Task[None] | None = None
        self._is_building = asyncio.Event()
        self._writer = StepWriter(self._write_steps)

    @staticmethod
    async def connect(dsn: str, *, connections: int = 4, must_answer: bool = True) -> PostgresLedger:
        """Open the ledger in this database. Up to `connections` statements run at the same time.

        With `must_answer=False` a database that cannot be reached is connected, and its tables are made, on first use.
        """
        ledger = PostgresLedger(dsn, connections)
        try:
            await ledger._make_tables()
        except LedgerError as error:
            if must_answer or not isinstance(error, LedgerUnavailableError):
                await ledger.close()
                raise
        return ledger

    @staticmethod
    async def migrate(dsn: str, note: Callable[[str], None]) -> PostgresLedger:
        """Open the ledger, and raise it to this version in a way that makes writers wait only for a moment.

        Indexes are built while others write. `note` is called with what is done next.
        """
        ledger = PostgresLedger(dsn, connections=2)
        try:
            async with ledger._connection() as connection:
                if not await run_statements(connection, has_tables()):
                    await prepare_upgrade(connection, note)
            note("raising the tables")
            await ledger._make_tables(is_migration=True)
        except LedgerError:
            await ledger.close()
            raise
        return ledger

    async def close(self) -> None:
        self._is_closed = True
        await self._stop_keeping()
        if self._builder is not None:
            # Not while it connects: that would lose the connection. The next process that opens the ledger continues.
            connected = asyncio.ensure_future(self._is_building.wait())
            either = {self._builder, connected}
            await asyncio.wait(either, timeout=_CONNECT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            connected.cancel()
            self._builder.cancel()
            await asyncio.gather(self._builder, return_exceptions=True)
        await self._writer.close()
        for free in (self._free, self._free_writers):
            while free:
                await free.pop().close()

    async def _make_tables(self, *, is_migration: bool = False) -> None:
        # CREATE TABLE IF NOT EXISTS takes locks even if the table exists, and running statements would have to wait.
        async with self._connection() as connection:
            if not await run_statements(connection, has_tables()):
                before = await make_tables(connection, is_migration=is_migration)
                count, last = int(before is not None and not is_migration), ""
                for _ in range(BATCHES_WHEN_OPENED):
                    if count:
                        count, last = await run_statements(connection, fill_conversations(last))
            missing = await missing_indexes(connection, BUILT_LATER)
        self._has_tables = True
        self._has_words = not any(index in missing for index in WORD_INDEXES)
        # Rows without a partition of their own go to the default one. The next look may succeed.
        with suppress(LedgerError):
            await self.maintain(now=time.time())
        if missing and self._builder is None:
            self._builder = asyncio.create_task(self._build_indexes())

    async def maintain(self, *, now: float) -> None:
        day = day_of(now)
        if partitions.week_of(day) <= self._prepared_week:
            return
        async with self._connection() as connection:
            for table in partitions.KEYS:
                if not partitions.missing_weeks(await find_partitions(connection, table), day):
                    continue
                try:
                    async with connection.transaction():
                        await connection.execute(SHORT_WAIT)
                        await connection.execute(LOCK_TABLES)
                        await make_weeks(connection, table, day)
                except _busy_errors():
                    # Rows of those weeks go to the default partition until the next look.
                    return
        self._prepared_week = partitions.week_of(day)

    async def _build_indexes(self) -> None:
        """Build the missing indexes, on a connection of its own. Until they are there, lists are slow but complete."""
        psycopg = _psycopg()
        try:
            connection = await self._connect(is_writer=False)
            self._is_building.set()
            try:
                await build_indexes(connection, BUILT_LATER, is_pooled=connection.prepare_threshold is None)
            finally:
                await connection.close()
        except psycopg.Error as fault:
            _log.warning("the indexes of the ledger are not complete; the next start tries again: %s", fault)

    async def _search_words(self, text: str) -> str | None:
        if text and not self._has_words and self._has_tables:
            # Perhaps another process has built them meanwhile.
            async with self._connection() as connection:
                self._has_words = not await missing_indexes(connection, WORD_INDEXES)
        return search_text(text) if self._has_words else None

    async def _transact(self, transaction: Transaction[T], *, is_atomic: bool = False) -> T:
        if not self._has_tables:
            await self._make_tables()
        if is_atomic:
            async with self._connection() as connection, connection.transaction():
                return await run_statements(connection, transaction)
        try:
            wanted = next(transaction)
            while True:
                wanted = transaction.send(await self._execute(wanted))
        except StopIteration as done:
            return done.value

    async def _execute(self, wanted: Statement | Step) -> QueryResult:
        if isinstance(wanted, Step):
            return QueryResult(count=int(await self._writer.write(wanted)))
        async with self._connection() as connection:
            return await _repeat(lambda: execute_statement(connection, wanted))

    async def _write_steps(self, steps: Sequence[Step]) -> set[int]:
        """Write steps of different conversations in one statement. Returns the numbers of those that were written."""
        is_lost = False
        try:
            async with self._connection(is_writer=True) as connection:
                try:
                    return await _send_steps(connection, steps)
                except _psycopg().OperationalError:
                    is_lost = connection.broken
                    raise
        except LedgerUnavailableError as error:
            if not is_lost:
                raise
            return await self._write_again(steps, error)

    async def _write_again(self, steps: Sequence[Step], lost: LedgerUnavailableError) -> set[int]:
        """Write steps that were sent over a connection that broke, and may have been written."""
        while self._free_writers:
            # The server may have lost these too.
            await self._free_writers.pop().close()
        for pause in _PAUSES:
            await asyncio.sleep(pause)
            try:
                async with self._connection(is_writer=True) as connection:
                    written = await _send_steps(connection, steps)
                    for number, step in enumerate(steps):
                        if number not in written and await _was_written(connection, step):
                            written.add(number)
                    return written
            except LedgerUnavailableError as error:
                lost = error
        raise lost

    def _open_beat(self) -> Beat:
        return _PostgresBeat(self._dsn)

    async def _write(self, text: str, parameters: Sequence[object]) -> list[tuple[Any, ...]]:
        async with self._connection(is_writer=True) as connection:
            return await _send(connection, text, parameters)

    # --- Retention ---

    async def _weeks(self, table: str) -> list[Partition]:
        if not self._has_tables:
            await self._make_tables()
        async with self._connection() as connection:
            return await find_partitions(connection, table)

    async def missing_partitions(self, *, now: float) -> list[str]:
        async with self._connection() as connection:
            return [
                f"{table}_{week}"
                for table in partitions.KEYS
                for week in partitions.missing_weeks(await find_partitions(connection, table), day_of(now))
            ]

    async def _remove(self, removals: Sequence[Removal], recent: float) -> set[str]:
        return {row[0] for row in await self._write(POSTGRES_REMOVAL, postgres_removal(removals, recent))}

    async def _remove_stubs(self, stubs: Sequence[tuple[str, int, int]]) -> int:
        ((count,),) = await self._write(POSTGRES_STUB_REMOVAL, postgres_stub_removal(stubs))
        return count

    async def _sweep_messages(self, week: Partition) -> int:
        text = POSTGRES_SWEEP.format(week=partitions.born_in(week), limit=BATCH)
        ((count,),) = await self._write(text, ())
        return count

    async def _drop_messages(self, week: Partition) -> Drop:
        async with self._connection() as connection:
            try:
                async with connection.transaction():
                    await lock_table(connection, week.name)
                    if await rows_of(connection, partitions.message_drop_check(week)):
                        return Drop.NEEDED
                    await connection.execute(f"TRUNCATE {week.name}".encode())
            except _busy_errors():
                return Drop.BUSY
            except _psycopg().errors.UndefinedTable:
                # Another process has dropped it.
                return Drop.DONE
            await _drop_empty(connection, week)
            return Drop.DONE

    async def _drop_audit(self, week: Partition, before: float) -> int | None:
        async with self._connection() as connection:
            try:
                async with connection.transaction():
                    await lock_table(connection, week.name)
                    if await rows_of(connection, partitions.audit_drop_check(week, before)):
                        return None
                    ((count,),) = await rows_of(connection, partitions.stub_drop(week))
                    await connection.execute(f"TRUNCATE {week.name}".encode())
            except (*_busy_errors(), _psycopg().errors.UndefinedTable):
                return None
            await _drop_empty(connection, week)
            return count

    @asynccontextmanager
    async def _connection(self, *, is_writer: bool = False) -> AsyncGenerator[Connection]:
        """Lend a connection. What goes wrong with the database meanwhile is raised as an error of the ledger."""
        psycopg = _psycopg()
        if self._is_closed:
            raise LedgerError("the ledger is closed", code="ledger_closed")
        free = self._free_writers if is_writer else self._free
        async with self._pool_load.slot(self._slots):
            try:
                connection = free.pop() if free else await self._connect(is_writer=is_writer)
                try:
                    yield connection
                finally:
                    await self._release(connection, free)
            except (
                psycopg.OperationalError,
                psycopg.InterfaceError,
                psycopg.errors.IdleInTransactionSessionTimeout,
            ) as fault:
                raise LedgerUnavailableError(f"the ledger's database: {fault}", hint="Try again.") from fault
            except psycopg.errors.DivisionByZero as fault:
                raise damaged_error() from fault
            except (UnicodeEncodeError, psycopg.DataError) as fault:
                raise unstorable_error() from fault
            except psycopg.Error as fault:
                raise LedgerError(f"the ledger's database: {fault}", code="ledger_damaged") from fault

    @property
    def pool_load(self) -> PoolLoad:
        return self._pool_load

    async def _connect(self, *, is_writer: bool) -> Connection:
        connection: Connection = await _psycopg().AsyncConnection.connect(
            self._dsn, autocommit=True, fallback_application_name=_process_name()
        )
        try:
            await self._set_up(connection, is_writer=is_writer)
        # Also if the caller is cancelled: nobody else knows of this connection.
        except BaseException:
            await connection.close()
            raise
        return connection

    async def _set_up(self, connection: Connection, *, is_writer: bool) -> None:
        (pid, synchronous) = await row_of(connection, _SERVER)
        if pid != connection.info.backend_pid:
            connection.prepare_threshold = None
            _require_durable(synchronous)
            return
        connection.prepare_threshold = 2
        for setting in (_DURABLE, _NEWEST, _NO_LOCKS_ASLEEP, *((_SAME_PLAN,) if is_writer else ())):
            await connection.execute(setting)

    async def _release(self, connection: Connection, free: list[Connection]) -> None:
        """Return a connection to the pool. One that broke, or is inside a transaction, is closed instead."""
        is_idle = connection.info.transaction_status == _psycopg().pq.TransactionStatus.IDLE
        if is_idle and not self._is_closed:
            free.append(connection)
        else:
            await connection.close()


class _PostgresBeat:
    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._connection: Any = None

    def __call__(self, owner: str, until: float) -> None:
        psycopg = _psycopg()
        try:
            if self._connection is None:
                self._connection = psycopg.connect(self._dsn, autocommit=True, prepare_threshold=None)
            self._connection.execute(STATEMENTS["beat"], (owner, until))
        except psycopg.Error as fault:
            self.close()
            raise LedgerUnavailableError(f"the ledger's database: {fault}") from fault

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


async def _send_steps(connection: Connection, steps: Sequence[Step]) -> set[int]:
    return {row[0] for row in await _send(connection, *postgres_write(steps))}


async def _send(connection: Connection, text: str, parameters: Sequence[object]) -> list[tuple[Any, ...]]:
    """Execute one statement that writes. Returns its rows."""

    async def send() -> list[tuple[Any, ...]]:
        try:
            cursor = await connection.execute(text.encode(), parameters)
        except _psycopg().errors.CheckViolation:
            # The partition of a row's week was made while the row was on its way to the default one.
            cursor = await connection.execute(text.encode(), parameters)
        return await cursor.fetchall()

    return await _repeat(send)


async def _repeat(send: Callable[[], Awaitable[T]]) -> T:
    """Send a single statement, and again if it ended in a deadlock or could not be serialized: it has done nothing."""
    errors = _psycopg().errors
    for pause in _PAUSES[: _STATEMENT_TRIES - 1]:
        try:
            return await send()
        except (errors.DeadlockDetected, errors.SerializationFailure):
            await asyncio.sleep(pause)
    return await send()


async def _was_written(connection: Connection, step: Step) -> bool:
    """Whether a step is in the database that may have been sent before."""
    if Kind.EVENT in step.rows and Kind.AUDIT not in step.rows:
        # Somebody else has changed the conversation since. Nobody else can have written these events in this epoch.
        born, response, first, _, data = step.rows[Kind.EVENT][0]
        told = await (await connection.execute(_TOLD, (step.record.id, response, first, born))).fetchone()
        return told == (data, step.record.epoch)
    if Kind.AUDIT not in step.rows:
        # It can be written again, and was not, because somebody has changed the conversation: it is computed again.
        return False
    row = await (await connection.execute(_WRITTEN, (step.record.id, step.record.seq))).fetchone()
    if row is None or row[0] != step.record.head:
        return False
    if row[1] != step.record.epoch:
        # Another owner has taken over since. It has marked what this step has started, so nothing may begin now.
        raise LedgerUnavailableError("the ledger's database: the answer to a write was lost", hint="Try again.")
    return True


def _process_name() -> str:
    """Return the name under which the server lists this process, unless the address has one: see `doctor`."""
    return f"{PROCESS_PREFIX}{socket.gethostname()[:40]}/{os.getpid()}"


def _require_durable(synchronous_commit: str) -> None:
    if synchronous_commit == "off":
        raise LedgerError(
            "synchronous_commit is off, and a connection pool keeps it so: a power cut could make an effect happen "
            "twice",
            code="ledger_not_durable",
            hint="ALTER DATABASE ... SET synchronous_commit = on",
        )


async def _drop_empty(connection: Connection, week: Partition) -> None:
    """Drop a partition that was emptied. While the table is busy it stays, and is dropped the next time."""
    try:
        async with connection.transaction():
            await lock_table(connection, week.table)
            ((has_rows,),) = await rows_of(connection, partitions.HAS_ROWS.format(table=week.name))
            if not has_rows:
                await connection.execute(f"DROP TABLE {week.name}".encode())
    except (*_busy_errors(), _psycopg().errors.UndefinedTable):
        return


def _busy_errors() -> tuple[type[Exception], ...]:
    """Return the errors that mean that somebody else uses a table: a writer, or a process that builds an index."""
    errors = _psycopg().errors
    return errors.LockNotAvailable, errors.DeadlockDetected


def _psycopg() -> Any:
    try:
        import psycopg
    except ImportError:
        raise LedgerError(
            "a ledger in Postgres needs psycopg", code="not_installed", hint='pip install "ferrule[postgres]"'
        ) from None
    return psycopg
