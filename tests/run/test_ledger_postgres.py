"""What is Postgres's own: lost connections, many processes that begin at once, and a server that commits lazily."""

from __future__ import annotations

import asyncio
from pathlib import Path

import psycopg
import pytest

from ferrule.errors import LedgerError, LedgerUnavailableError
from ferrule.run.ledger.postgres import PostgresLedger
from run.ledger_databases import ANN, LEASE, Home, postgres_home

pytestmark = pytest.mark.live


@pytest.fixture
def here(cluster: Path) -> Home:
    return postgres_home(cluster)


def test_after_a_lost_connection_the_next_try_has_a_new_one(here: Home) -> None:
    async def story() -> None:
        async with await PostgresLedger.at(here.where) as ledger:
            await ledger.open("c", ANN, "one", LEASE, now=0)
            here.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()",
                (),
            )
            with pytest.raises(LedgerUnavailableError) as refusal:
                await ledger.save("c", 1, {}, now=1)
            assert refusal.value.retryable
            assert await ledger.save("c", 1, {}, now=1) == 1

    asyncio.run(story())


def test_many_can_make_the_tables_at_once(here: Home) -> None:
    async def story() -> None:
        for ledger in await asyncio.gather(*(PostgresLedger.at(here.where) for _ in range(8))):
            assert await ledger.verify() is None
            await ledger.close()

    asyncio.run(story())


def test_a_process_that_starts_waits_for_nobody_at_work(here: Home) -> None:
    async def scenario() -> None:
        async with await PostgresLedger.at(here.where) as ledger:
            await ledger.open("c", ANN, "owner", LEASE, now=0.0)
            at_work = await psycopg.AsyncConnection.connect(here.where)
            await at_work.execute("UPDATE ferrule_conversation SET version = version + 1")
            async with asyncio.timeout(20), await PostgresLedger.at(here.where) as other:
                assert await other.load("c") is not None
            await at_work.close()

    asyncio.run(scenario())


def test_a_start_is_on_disk_even_where_the_server_commits_lazily(here: Home) -> None:
    lazy = f"{here.where}%20-csynchronous_commit%3Doff%20-cdefault_transaction_isolation%3Dserializable"

    async def story() -> list[str]:
        async with await PostgresLedger.at(lazy) as ledger:
            connection = await ledger._connect()
            told = [
                (await (await connection.execute(f"SHOW {name}".encode())).fetchall())[0][0]
                for name in ("synchronous_commit", "default_transaction_isolation")
            ]
            async with connection.transaction():
                told.append((await (await connection.execute(b"SHOW transaction_isolation")).fetchall())[0][0])
            await connection.close()
            return told

    assert asyncio.run(story()) == ["on", "serializable", "read committed"]


def test_a_server_that_is_not_there_and_a_closed_ledger_are_told_apart(here: Home, tmp_path: Path) -> None:
    with pytest.raises(LedgerUnavailableError):
        asyncio.run(PostgresLedger.at(f"postgresql://nobody@/none?host={tmp_path}"))

    async def story() -> None:
        ledger = await PostgresLedger.at(here.where)
        await ledger.close()
        with pytest.raises(LedgerError) as refusal:
            await ledger.load("c")
        assert refusal.value.code == "ledger_closed"

    asyncio.run(story())
