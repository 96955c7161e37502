"""Conversations that are kept: held for as long as their process lives, by one row for all of them."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from architecture.source_tree import ROOT, SRC
from ferrule.errors import FencedError
from ferrule.run.lease import Lease
from ferrule.run.ledger.address import open_ledger
from ferrule.run.ledger.lease_tables import WHILE_ALIVE
from ferrule.run.ledger.sql import SqlLedger
from ferrule.run.ledger.sqlite import SqliteLedger
from run.ledger_databases import ANN, Database, claim, sqlite_database
from waiting import PATIENCE, eventually

SHORT = 0.6


def alive_until(database: Database) -> list[float]:
    return [until for (until,) in database.execute("SELECT alive_until FROM ferrule_owner", ())]


def leases(database: Database) -> list[float]:
    return [until for (until,) in database.execute("SELECT lease_until FROM ferrule_conversation ORDER BY id", ())]


async def wait_for(is_true: Callable[[], bool]) -> None:
    while not is_true():
        await asyncio.sleep(0.02)


async def wait_for_signs(database: Database, count: int) -> None:
    """Wait until the owner's row has changed so many times."""
    for _ in range(count):
        last = max(alive_until(database), default=0.0)
        await wait_for(lambda last=last: max(alive_until(database), default=0.0) > last)


def test_a_short_turn_is_not_kept_and_writes_no_sign_of_life(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        lease = await Lease.acquire(ledger, "c", ANN, 3600)
        async with lease:
            assert alive_until(database) == []
        assert leases(database) == [lease.record.lease_until]

    database.run(scenario)


def test_many_conversations_of_a_process_are_held_by_one_row(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        acquired = [await Lease.acquire(ledger, f"c{number}", ANN, SHORT) for number in range(40)]
        rows = "SELECT id, epoch, audit_seq, lease_until FROM ferrule_conversation ORDER BY id"
        for lease in acquired:
            await lease.__aenter__()
        await wait_for(lambda: set(leases(database)) == {WHILE_ALIVE})
        before = database.execute(rows, ())
        await wait_for_signs(database, 3)
        assert database.execute(rows, ()) == before
        assert len(alive_until(database)) == 1
        for lease in acquired:
            await lease.__aexit__()
        await wait_for(lambda: WHILE_ALIVE not in leases(database))

    database.run(scenario)


def test_a_kept_conversation_is_taken_over_only_after_the_last_sign_of_its_owner(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        await ledger.open("c", ANN, "one", 10, now=0)
        await ledger.propose(claim(), 1, side_effects=True, needs_approval=False, now=0)
        await ledger.keep("c", 1, 100.0, lambda: 5.0)
        async with await open_ledger(database.where) as other:
            with pytest.raises(FencedError) as refusal:
                await other.take_over("c", "two", 10, now=104.9)
            assert refusal.value.code == "conversation_held"
            assert await ledger.start(claim(), 1, now=104.9)
            taken = await other.take_over("c", "two", 10, now=105)
            assert (taken.epoch, taken.owner, taken.lease_until) == (2, "two", 115)
            call = await other.call("c", "k")
            assert call is not None
            assert call.state.value == "unknown"
        # What the first owner says of its life since then is no way back.
        for write in (
            ledger.keep("c", 1, 100.0, lambda: 106.0),
            ledger.start(claim(), 1, now=106),
            ledger.save("c", 1, {"messages": []}, now=106),
        ):
            with pytest.raises(FencedError):
                await write
        assert await ledger.verify() is None

    database.run(scenario)


def test_an_owner_without_a_sign_of_life_starts_nothing(database: Database) -> None:
    now = 5.0

    async def scenario(ledger: SqlLedger) -> None:
        nonlocal now
        await ledger.open("c", ANN, "one", 10, now=0)
        await ledger.propose(claim(), 1, side_effects=True, needs_approval=False, now=0)
        await ledger.keep("c", 1, 3600.0, lambda: now)
        with pytest.raises(FencedError) as refusal:
            await ledger.start(claim(), 1, now=3606)
        assert refusal.value.code == "lease_over"
        now = 3607.0
        await ledger.keep("c", 1, 3600.0, lambda: now)
        assert await ledger.start(claim(), 1, now=3608)

    database.run(scenario)


def test_an_event_loop_that_computes_for_long_keeps_its_conversations(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A machine that is busy enough takes a minute for it, after which this loop would count as dead.
    monkeypatch.setattr("ferrule.run.ledger.heartbeat._HUNG_SECONDS", PATIENCE)

    async def scenario(ledger: SqlLedger) -> None:
        async with await Lease.acquire(ledger, "c", ANN, SHORT):
            await wait_for(lambda: leases(database) == [WHILE_ALIVE])
            first = max(alive_until(database))
            # It does not await: nothing else runs in this loop meanwhile.
            eventually(lambda: max(alive_until(database)) >= first + 2 * SHORT)

    database.run(scenario)


def test_a_loop_that_hangs_for_ever_loses_its_conversations(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ferrule.run.ledger.heartbeat._HUNG_SECONDS", 2 * SHORT)

    async def scenario(ledger: SqlLedger) -> None:
        async with await Lease.acquire(ledger, "c", ANN, SHORT):
            await wait_for(lambda: leases(database) == [WHILE_ALIVE])
            while max(alive_until(database)) > time.time():
                time.sleep(0.01)

    database.run(scenario)


def test_a_conversation_that_is_released_in_its_last_step_is_not_written_again(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        lease = await Lease.acquire(ledger, "c", ANN, SHORT)
        async with lease:
            await wait_for(lambda: leases(database) == [WHILE_ALIVE])
            await lease.release()
            assert leases(database) == [0.0]
        await ledger.open("c", ANN, "two", 10, now=time.time())

    database.run(scenario)


def test_a_conversation_is_let_go_when_the_database_answers_again(tmp_path: Path) -> None:
    database = sqlite_database(tmp_path)

    async def scenario() -> None:
        async with await SqliteLedger.connect(database.where, wait=0.05) as ledger:
            async with await Lease.acquire(ledger, "c", ANN, SHORT):
                await wait_for(lambda: leases(database) == [WHILE_ALIVE])
                locked = _lock(database.where)
            await asyncio.sleep(0.2)
            assert leases(database) == [WHILE_ALIVE]
            locked.rollback()
            locked.close()
            await wait_for(lambda: WHILE_ALIVE not in leases(database))

    asyncio.run(scenario())


def _lock(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    return connection


KEEPER = """
import asyncio, sys
from run.ledger_databases import address_of
from ferrule.core.context import Principal
from ferrule.run.lease import Lease
from ferrule.run.ledger.address import open_ledger

async def main():
    ledger = await open_ledger(address_of(sys.argv[1]))
    async with await Lease.acquire(ledger, "c", Principal("ann", "acme"), float(sys.argv[2])):
        await asyncio.sleep(3600)

asyncio.run(main())
"""


@pytest.mark.parametrize("way", [signal.SIGKILL, signal.SIGSTOP])
def test_what_a_killed_or_stopped_process_kept_is_taken_over(database: Database, way: signal.Signals) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        opened = await Lease.acquire(ledger, "c", ANN, SHORT)
        await opened.release()
        process = subprocess.Popen(
            [sys.executable, "-c", KEEPER, database.argument, str(SHORT)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (SRC, ROOT / "tests")))},
        )
        try:
            await wait_for(lambda: leases(database) == [WHILE_ALIVE])
            await wait_for_signs(database, 2)
            process.send_signal(way)
            taken = await Lease.wait(ledger, "c", ANN, SHORT)
            assert taken.record.epoch == 3
        finally:
            process.kill()
            process.wait()

    database.run(scenario)
