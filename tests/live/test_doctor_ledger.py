"""`ferrule doctor --ledger` on real servers, with and without a standby, and with settings that lose commits."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping

import psycopg
import pytest

import ferrule.ledger
from cli.command_line import run
from ferrule.cli.doctor_ledger import connections_of
from ferrule.core.context import Principal
from lab.postgres_server import PostgresServer, pgbouncer, postgres_server, standby_server
from waiting import eventually

pytestmark = pytest.mark.live
SAFE = {"fsync": "on"}


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres_server(SAFE) as one:
        yield one


def restart(server: PostgresServer, settings: Mapping[str, str]) -> None:
    server.stop("fast")
    server.settings = {**SAFE, **settings}
    server.start()


def findings(address: str, *options: str, code: int = 0) -> dict[str, dict[str, str]]:
    ran = run("doctor", "--ledger", address, *options, "--json")
    assert ran.code == code, ran.err
    return {one["name"]: one for one in ran.json["findings"]}


def standby_states(server: PostgresServer) -> list[str]:
    with psycopg.connect(server.address) as connection:
        return [row[0] for row in connection.execute("SELECT sync_state FROM pg_stat_replication")]


def test_a_server_without_a_standby_is_in_order(server: PostgresServer) -> None:
    restart(server, {})
    before = findings(server.address)
    assert {one["verdict"] for one in before.values()} == {"ok"}
    assert before["answers"]["evidence"].startswith("PostgreSQL ")
    assert "no ledger yet" in before["ledger"]["evidence"]

    async def make() -> None:
        async with ferrule.ledger.open(server.address):
            pass

    asyncio.run(make())
    after = findings(server.address)
    assert after["ledger"]["evidence"].startswith("version ")
    assert after["standby"]["evidence"] == "none is connected"
    assert "s ahead" in after["clock"]["evidence"] or "s behind" in after["clock"]["evidence"]


def test_settings_that_lose_commits_are_named(server: PostgresServer) -> None:
    restart(server, {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off"})
    ran = run("doctor", "--ledger", server.address)
    assert ran.code == 0
    warned = [line.partition(" ")[0] for line in ran.err.splitlines()]
    assert warned == ["fsync", "full_page_writes", "synchronous_commit"]
    assert "set synchronous_commit = on" in ran.err


def test_more_processes_than_the_server_has_connections_for_are_reported(server: PostgresServer) -> None:
    restart(server, {"max_connections": "40"})
    assert findings(server.address, "--processes", "5")["connections"]["verdict"] == "ok"
    many = findings(server.address, "--processes", "7")["connections"]
    assert many["verdict"] == "warning"
    assert "37 allowed" in many["evidence"]
    assert "7 processes open up to 49" in many["evidence"]


def test_an_asynchronous_standby_is_a_danger_and_a_synchronous_one_is_not(server: PostgresServer) -> None:
    restart(server, {})
    with standby_server(server, "second") as standby:
        eventually(lambda: standby_states(server) == ["async"])
        asynchronous = findings(server.address)["standby"]
        assert asynchronous["verdict"] == "warning"
        assert asynchronous["evidence"] == "second (async)"
        assert "an effect can then happen twice" in asynchronous["advice"]
        assert "synchronous_standby_names" in asynchronous["advice"]

        restart(server, {"synchronous_standby_names": "second"})
        eventually(lambda: standby_states(server) == ["sync"])
        assert findings(server.address)["standby"] == {
            "name": "standby",
            "verdict": "ok",
            "evidence": "second (sync)",
            "advice": "",
        }

        restart(server, {"synchronous_standby_names": "second", "synchronous_commit": "local"})
        eventually(lambda: standby_states(server) == ["sync"])
        assert findings(server.address)["standby"]["verdict"] == "warning"

        assert findings(standby.address, code=1)["role"]["verdict"] == "failed"
    restart(server, {"synchronous_standby_names": "second"})
    assert "every commit waits" in findings(server.address, code=1)["standby"]["advice"]


def test_a_server_that_does_not_answer_is_an_error() -> None:
    ran = run("doctor", "--ledger", "postgresql://postgres@127.0.0.1:1/postgres")
    assert ran.code != 0
    assert "the ledger's database" in ran.err


def test_it_works_through_a_pooler_in_transaction_mode(server: PostgresServer) -> None:
    restart(server, {})
    with pgbouncer(server) as pooler:
        for _ in range(3):
            assert findings(pooler.address)["answers"]["verdict"] == "ok"


def test_a_process_opens_no_more_connections_than_it_is_said_to_and_is_counted(server: PostgresServer) -> None:
    restart(server, {})

    async def scenario() -> tuple[int, str]:
        async with ferrule.ledger.open(server.address, connections=3) as ledger:

            async def work(number: int) -> None:
                await ledger.open(f"busy-{number}", Principal(), "one", 10, now=0)
                for _ in range(5):
                    await ledger.save(f"busy-{number}", 1, {}, now=0)
                    await ledger.load(f"busy-{number}")

            await asyncio.gather(*map(work, range(40)))
            with psycopg.connect(server.address) as connection:
                own = connection.execute(
                    "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'ferrule/%'"
                )
                row = own.fetchone()
            evidence = await asyncio.to_thread(findings, server.address, "--processes", "1", "--connections", "3")
            return (row[0] if row else 0), evidence["connections"]["evidence"]

    count, evidence = asyncio.run(scenario())
    assert 3 <= count <= connections_of(3)
    assert "by 1 processes of Ferrule" in evidence
    assert "1 processes open up to 6" in evidence
