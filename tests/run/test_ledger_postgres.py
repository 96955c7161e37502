"""Postgres only: lost connections, processes that start at the same time, and a server that commits lazily."""

from __future__ import annotations

import asyncio
from pathlib import Path

import psycopg
import pytest

from ferrule.errors import LedgerError, LedgerUnavailableError
from ferrule.run.ledger.postgres import PostgresLedger
from ferrule.run.ledger.postgres_tables import _TABLES_LOCK, make_tables
from ferrule.run.ledger.transaction import Transaction, execute
from run.ledger_databases import ANN, LEASE, Database, postgres_database
from waiting import PATIENCE, eventually, until

pytestmark = pytest.mark.live


@pytest.fixture
def here(cluster: Path) -> Database:
    return postgres_database(cluster)


def test_after_a_lost_connection_a_step_is_written_and_the_next_read_has_a_new_one(here: Database) -> None:
    end_all = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
    )

    async def scenario() -> None:
        async with await PostgresLedger.connect(here.where) as ledger:
            await ledger.open("c", ANN, "one", LEASE, now=0)
            here.execute(end_all, ())
            assert await ledger.save("c", 1, {}, now=1) == 1
            with pytest.raises(LedgerUnavailableError) as refusal:
                await ledger.load("c")
            assert refusal.value.retryable
            assert await ledger.load("c") is not None

    asyncio.run(scenario())


def test_many_can_make_the_tables_at_once(here: Database) -> None:
    async def scenario() -> None:
        for ledger in await asyncio.gather(*(PostgresLedger.connect(here.where) for _ in range(8))):
            assert await ledger.verify() is None
            await ledger.close()

    asyncio.run(scenario())


def test_the_second_of_two_that_make_the_tables_leaves_them_alone(here: Database) -> None:
    """It would alter tables that the first writes to by then: the server ends one of the two with a deadlock."""
    waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = ?"

    async def scenario() -> None:
        first = await psycopg.AsyncConnection.connect(here.where, autocommit=True)
        await first.execute(b"SELECT pg_advisory_lock(%s)", (_TABLES_LOCK,))
        second = asyncio.ensure_future(PostgresLedger.connect(here.where))
        await until(lambda: here.execute(waiting, ("advisory",))[0][0] == 1)
        await make_tables(first, is_migration=False)
        at_work = await psycopg.AsyncConnection.connect(here.where)
        # As a step does, in each table that it writes to.
        await at_work.execute(b"LOCK TABLE ferrule_conversation, ferrule_call, ferrule_audit IN ROW EXCLUSIVE MODE")
        await first.execute(b"SELECT pg_advisory_unlock(%s)", (_TABLES_LOCK,))
        await until(lambda: second.done() or here.execute(waiting, ("relation",))[0][0] > 0)
        is_open = second.done()
        await at_work.close()
        async with await second as ledger:
            assert await ledger.load("c") is None
        await first.close()
        assert is_open

    asyncio.run(scenario())


@pytest.mark.parametrize("code", ["40P01", "40001"])
def test_a_step_or_a_read_that_the_server_ends_because_of_others_is_sent_again(here: Database, code: str) -> None:
    function = (
        "CREATE FUNCTION end_thrice() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        # Numbers of a sequence are not given back with what else is undone.
        "IF nextval('endings') <= 3 THEN RAISE EXCEPTION USING ERRCODE = '{code}'; END IF; RETURN NEW; END $$"
    )

    async def scenario() -> None:
        async with await PostgresLedger.connect(here.where) as ledger:
            await ledger.open("c", ANN, "one", LEASE, now=0)
            here.execute("CREATE SEQUENCE endings", ())
            here.execute(function.format(code=code), ())
            for table, event in (("ferrule_conversation", "UPDATE"), ("ferrule_owner", "INSERT")):
                here.execute(
                    f"CREATE TRIGGER ends BEFORE {event} ON {table} FOR EACH ROW EXECUTE FUNCTION end_thrice()", ()
                )
            assert await ledger.save("c", 1, {}, now=1) == 1
            here.execute("ALTER SEQUENCE endings RESTART", ())
            await ledger.keep("c", 1, LEASE, lambda: 2.0)
            assert [row.kind for row in await ledger.audit("c")] == ["opened", "saved"]
            assert await ledger.verify() is None
            # One that ends so whenever it is sent is an error that says that it may be tried again.
            here.execute("ALTER SEQUENCE endings MINVALUE -1000 RESTART WITH -1000", ())
            with pytest.raises(LedgerUnavailableError) as refusal:
                await ledger.save("c", 1, {}, now=3)
            assert refusal.value.retryable

    asyncio.run(scenario())


def test_a_starting_process_does_not_wait_for_running_transactions(here: Database) -> None:
    async def scenario() -> None:
        async with await PostgresLedger.connect(here.where) as ledger:
            await ledger.open("c", ANN, "owner", LEASE, now=0.0)
            at_work = await psycopg.AsyncConnection.connect(here.where)
            await at_work.execute("UPDATE ferrule_conversation SET version = version + 1")
            async with asyncio.timeout(PATIENCE), await PostgresLedger.connect(here.where) as other:
                assert await other.load("c") is not None
            await at_work.close()

    asyncio.run(scenario())


def test_a_start_is_on_disk_even_where_the_server_commits_lazily(here: Database) -> None:
    lazy = f"{here.where}%20-csynchronous_commit%3Doff%20-cdefault_transaction_isolation%3Dserializable"

    async def scenario() -> list[str]:
        async with await PostgresLedger.connect(lazy) as ledger:
            connection = await ledger._connect(is_writer=True)
            values = [
                (await (await connection.execute(f"SHOW {name}".encode())).fetchall())[0][0]
                for name in ("synchronous_commit", "default_transaction_isolation")
            ]
            async with connection.transaction():
                values.append((await (await connection.execute(b"SHOW transaction_isolation")).fetchall())[0][0])
            await connection.close()
            return values

    assert asyncio.run(scenario()) == ["on", "read committed", "read committed"]


def test_an_unreachable_server_and_a_closed_ledger_are_different_errors(here: Database, tmp_path: Path) -> None:
    with pytest.raises(LedgerUnavailableError):
        asyncio.run(PostgresLedger.connect(f"postgresql://nobody@/none?host={tmp_path}"))

    async def scenario() -> None:
        ledger = await PostgresLedger.connect(here.where)
        await ledger.close()
        with pytest.raises(LedgerError) as refusal:
            await ledger.load("c")
        assert refusal.value.code == "ledger_closed"

    asyncio.run(scenario())


def idle_limit(where: str) -> str:
    async def shown() -> str:
        ledger = await PostgresLedger.connect(where)
        connection = await ledger._connect(is_writer=True)
        try:
            row = await (await connection.execute("SHOW idle_in_transaction_session_timeout")).fetchone()
            return str(row[0]) if row else ""
        finally:
            await connection.close()
            await ledger.close()

    return asyncio.run(shown())


def test_a_process_that_sleeps_holds_no_lock_for_long_and_another_limit_is_kept(cluster: Path) -> None:
    where = postgres_database(cluster).where
    assert idle_limit(where) == "5s"
    assert idle_limit(f"{where}%20-cidle_in_transaction_session_timeout%3D2min") == "2min"


def test_a_transaction_that_slept_for_too_long_may_be_tried_again(here: Database) -> None:
    where = f"{here.where}%20-cidle_in_transaction_session_timeout%3D1s"
    sleepers = "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction'"

    def sleeping() -> Transaction[int]:
        yield from execute("versions")
        # Blocks the event loop, as a machine that sleeps does, until the server has ended the transaction.
        eventually(lambda: here.execute(sleepers, ())[0][0] == 0)
        return len((yield from execute("versions")).rows)

    async def scenario() -> None:
        async with await PostgresLedger.connect(where) as ledger:
            with pytest.raises(LedgerUnavailableError) as refusal:
                await ledger._transact(sleeping(), is_atomic=True)
            assert refusal.value.retryable

    asyncio.run(scenario())


def test_a_write_that_waits_for_somebodys_lock_does_not_hold_up_other_conversations(here: Database) -> None:
    async def scenario() -> None:
        async with await PostgresLedger.connect(here.where) as ledger:
            for name in ("locked", "free"):
                await ledger.open(name, ANN, "one", LEASE, now=0)
            async with await psycopg.AsyncConnection.connect(here.where) as other:
                await other.execute("SELECT 1 FROM ferrule_conversation WHERE id = 'locked' FOR UPDATE")
                waiting = asyncio.ensure_future(ledger.save("locked", 1, {}, now=1))
                blocked = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
                await until(lambda: here.execute(blocked, ())[0][0] > 0)
                for version in range(1, 4):
                    assert await ledger.save("free", 1, {}, now=1) == version
                assert not waiting.done()
                await other.rollback()
            assert await waiting == 1

    asyncio.run(scenario())


def test_the_pool_says_how_many_connections_are_in_use_and_what_waits_for_one(here: Database) -> None:
    async def scenario() -> None:
        async with await PostgresLedger.connect(here.where, connections=2) as ledger:
            for name in ("a", "b", "c"):
                await ledger.open(name, ANN, "one", LEASE, now=0)
            async with await psycopg.AsyncConnection.connect(here.where) as other:
                await other.execute("LOCK TABLE ferrule_conversation IN ACCESS EXCLUSIVE MODE")
                reads = [asyncio.ensure_future(ledger.load(name)) for name in ("a", "b", "c")]
                await until(lambda: (ledger.pool_load.in_use, ledger.pool_load.waiting) == (2, 1))
                reads[0].cancel()
                await until(lambda: (ledger.pool_load.in_use, ledger.pool_load.waiting) == (2, 0))
                await other.rollback()
            await asyncio.gather(*reads, return_exceptions=True)
            load = ledger.pool_load
            assert (load.in_use, load.waiting, load.limit) == (0, 0, 2)

    asyncio.run(scenario())
