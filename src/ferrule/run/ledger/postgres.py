"""The ledger for many machines: PostgreSQL 13 or newer. The only file that knows psycopg.

Every change first locks its conversation's row, so that changes to one conversation stand in a row and those to
different ones run side by side, over a few connections that are kept open.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from ferrule.errors import LedgerError, LedgerUnavailableError
from ferrule.run.ledger.sql import SqlLedger, admitted, unkept
from ferrule.run.ledger.tables import VERSION, Dialect
from ferrule.run.ledger.transaction import Answer, Statement, Work, say

if TYPE_CHECKING:
    from psycopg import AsyncConnection

T = TypeVar("T")
Connection: TypeAlias = "AsyncConnection[tuple[Any, ...]]"

DIALECT = Dialect(mark="%s", integer="BIGINT", real="DOUBLE PRECISION", blob="BYTEA", for_update=" FOR UPDATE")
_STATEMENTS = {name: text.encode() for name, text in DIALECT.statements().items()}
_STATEMENTS["has_ledger"] = b"SELECT to_regclass('ferrule_ledger') IS NOT NULL"
# Two processes that make the tables at once would trip over each other; any number that is ours will do.
_MAKING_TABLES = 7_305_801_174
# Started must be on disk before the effect. Stricter settings than "on" are the operator's and stay.
_DURABLE = b"SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"


class PostgresLedger(SqlLedger):
    """Made by `PostgresLedger.at`."""

    def __init__(self, dsn: str, connections: int) -> None:
        self._dsn = dsn
        self._places = asyncio.Semaphore(connections)
        self._free: list[Connection] = []
        self._is_closed = False

    @staticmethod
    async def at(dsn: str, *, connections: int = 4) -> PostgresLedger:
        """The ledger in this database; `connections` is how many transactions run at once."""
        ledger = PostgresLedger(dsn, connections)
        await ledger._make_tables()
        return ledger

    async def close(self) -> None:
        self._is_closed = True
        while self._free:
            await self._free.pop().close()

    async def _make_tables(self) -> None:
        # To make what is there already takes locks all the same, and those at work would wait for each other.
        if not await self._transact(_is_made()):
            await self._transact(admitted(), [f"SELECT pg_advisory_xact_lock({_MAKING_TABLES})", *DIALECT.tables()])

    async def _transact(self, work: Work[T], first: Sequence[str] = ()) -> T:
        psycopg = _psycopg()
        if self._is_closed:
            raise LedgerError("the ledger is closed", code="ledger_closed")
        async with self._places:
            try:
                connection = self._free.pop() if self._free else await self._connect()
                try:
                    async with connection.transaction():
                        for text in first:
                            await connection.execute(text.encode())
                        return await _answered(connection, work)
                finally:
                    await self._give_back(connection)
            except (psycopg.OperationalError, psycopg.InterfaceError) as fault:
                raise LedgerUnavailableError(f"the ledger's database: {fault}", hint="Try again.") from fault
            except (UnicodeEncodeError, psycopg.DataError) as fault:
                raise unkept() from fault
            except psycopg.Error as fault:
                raise LedgerError(f"the ledger's database: {fault}", code="ledger_damaged") from fault

    async def _connect(self) -> Connection:
        connection: Connection = await _psycopg().AsyncConnection.connect(self._dsn, autocommit=True)
        # Each statement sees what was committed before it: after waiting for a row's lock that is what counts.
        await connection.set_isolation_level(_psycopg().IsolationLevel.READ_COMMITTED)
        await connection.execute(_DURABLE)
        return connection

    async def _give_back(self, connection: Connection) -> None:
        """A connection that broke, or that was left in the middle of something, is not used again."""
        is_idle = connection.info.transaction_status == _psycopg().pq.TransactionStatus.IDLE
        if is_idle and not self._is_closed:
            self._free.append(connection)
        else:
            await connection.close()


def _is_made() -> Work[bool]:
    if not (yield from say("has_ledger")).rows[0][0]:
        return False
    return [row[0] for row in (yield from say("versions")).rows] == [VERSION]


async def _answered(connection: Connection, work: Work[T]) -> T:
    """Hand the work the answer to each of its statements until it is done."""
    try:
        statement = next(work)
        while True:
            statement = work.send(await _answer(connection, statement))
    except StopIteration as done:
        return done.value


async def _answer(connection: Connection, statement: Statement) -> Answer:
    cursor = await connection.execute(_STATEMENTS[statement.name], statement.values)
    # A statement that reads says what its columns are.
    return Answer(await cursor.fetchall() if cursor.description else [], cursor.rowcount)


def _psycopg() -> Any:
    try:
        import psycopg
    except ImportError:
        raise LedgerError(
            "a ledger in Postgres needs psycopg", code="not_installed", hint='pip install "ferrule[postgres]"'
        ) from None
    return psycopg
