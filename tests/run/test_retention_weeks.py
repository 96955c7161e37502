"""In Postgres, a week in which nothing is in use goes as a whole: its tables are dropped, and others do not notice."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import psycopg
import pytest

from ferrule.core.outcome import Unknown
from ferrule.errors import LedgerError
from ferrule.run.ledger import partitions
from ferrule.run.ledger.address import open_ledger
from ferrule.run.ledger.partitions import KEYS, WEEK_DAYS, day_of, week_of
from ferrule.run.ledger.prune_report import PruneReport
from ferrule.run.ledger.sql import SqlLedger
from run.ledger_databases import ANN, LEASE, Database, claim, postgres_database

pytestmark = pytest.mark.live
DAY = 86_400.0
NOW = time.time()
LATER = NOW + 100 * DAY
CUTOFF = NOW + 70 * DAY
WEEK = week_of(day_of(NOW))
MESSAGES, AUDIT = f"ferrule_message_{WEEK}", f"ferrule_audit_{WEEK}"


@pytest.fixture
def database(cluster: Path) -> Database:
    return postgres_database(cluster)


def tables(database: Database) -> set[str]:
    return {name for table in KEYS for name, _ in database.execute(partitions.FIND_PARTITIONS.format(table=table), ())}


def count(database: Database, table: str) -> int:
    return database.execute(f"SELECT COUNT(*) FROM {table}", ())[0][0]


async def talk(ledger: SqlLedger, id: str, at: float = NOW) -> None:
    record = await ledger.open(id, ANN, "one", LEASE, now=at)
    await ledger.save(id, record.epoch, {"messages": [{"n": 0}, {"n": 1}]}, now=at)
    await ledger.release(id, record.epoch, now=at)


def test_a_week_in_which_nothing_is_left_is_dropped(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> PruneReport:
        for number in range(5):
            await talk(ledger, f"c{number}")
        await ledger.maintain(now=LATER)
        await talk(ledger, "new", LATER)
        report = await ledger.prune(CUTOFF, now=LATER)
        assert await ledger.verify() is None
        assert await ledger.load("new") is not None
        return report

    report = database.run(scenario)
    assert report.conversations == 5
    assert MESSAGES in report.dropped
    assert MESSAGES not in tables(database)
    assert AUDIT in tables(database)
    assert count(database, "ferrule_message") == 2


def test_a_conversation_in_use_keeps_its_rows_and_the_others_of_its_week_go(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        for number in range(5):
            await talk(ledger, f"c{number}")
        record = await ledger.open("c3", ANN, "two", LEASE, now=LATER)
        report = await ledger.prune(CUTOFF, CUTOFF, now=LATER)
        assert (report.conversations, report.audits) == (4, 4)
        # Emptied are only the tables of weeks in which nothing is in use.
        assert not {MESSAGES, AUDIT} & set(report.dropped)
        assert record.state == {"messages": [{"n": 0}, {"n": 1}]}
        await ledger.save("c3", record.epoch, {"messages": [{"n": 0}, {"n": 1}, {"n": 2}]}, now=LATER)
        assert await ledger.verify() is None

    database.run(scenario)
    assert {MESSAGES, AUDIT} <= tables(database)
    assert (count(database, "ferrule_message"), count(database, "ferrule_conversation")) == (3, 1)


def test_audit_logs_of_a_week_are_dropped_with_their_stubs(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> PruneReport:
        for number in range(5):
            await talk(ledger, f"c{number}")
        # Its first audit rows are those of an earlier version, and lie in another partition.
        database.execute("UPDATE ferrule_audit SET born = 0 WHERE conversation = 'c1' AND seq < 3", ())
        await ledger.prune(CUTOFF, now=LATER)
        assert await ledger.verify() is None
        report = await ledger.prune(CUTOFF, CUTOFF, now=LATER)
        assert await ledger.verify() is None
        return report

    report = database.run(scenario)
    assert (report.conversations, report.audits) == (0, 5)
    assert AUDIT in report.dropped
    assert AUDIT not in tables(database)
    assert (count(database, "ferrule_audit"), count(database, "ferrule_conversation")) == (0, 0)


def test_the_early_partition_stays_while_a_later_conversation_has_rows_in_it(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        await talk(ledger, "c", LATER - DAY)
        database.execute("UPDATE ferrule_audit SET born = 0 WHERE seq = 1", ())
        await ledger.prune(CUTOFF, CUTOFF, now=LATER)
        assert len(await ledger.audit("c")) == 3
        assert await ledger.verify() is None

    database.run(scenario)
    assert "ferrule_audit_early" in tables(database)


def test_whole_weeks_wait_for_the_end_of_the_week(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        await talk(ledger, "c")
        within = (WEEK + WEEK_DAYS) * DAY - 1
        assert (await ledger.prune(max(within, NOW + 1), now=LATER, whole_weeks=True)).conversations == 0
        # Years of an earlier version, and rows without a partition of their own, do not wait.
        await talk(ledger, "early", NOW - 50 * DAY)
        await talk(ledger, "stray", NOW + 300 * DAY)
        assert (await ledger.prune(NOW - 40 * DAY, now=LATER, whole_weeks=True)).conversations == 1
        assert (await ledger.prune(NOW + 301 * DAY, now=NOW + 302 * DAY, whole_weeks=True)).conversations == 2
        await talk(ledger, "d")
        assert (await ledger.prune(within + DAY, now=LATER, whole_weeks=True)).conversations == 1
        audits = [await ledger.prune(at, at, now=LATER, whole_weeks=True) for at in (within, within + DAY)]
        assert [one.audits for one in audits] == [1, 2]

    database.run(scenario)


def test_a_busy_week_is_left_for_the_next_time(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        await talk(ledger, "c")
        with psycopg.connect(database.where) as reader:
            # A long read, such as a backup.
            reader.execute("SELECT COUNT(*) FROM ferrule_message")
            report = await ledger.prune(CUTOFF, now=LATER)
            assert (report.conversations, report.is_swept) == (1, False)
            # Nobody waits behind it.
            await talk(ledger, "d", LATER)
        assert (await ledger.prune(CUTOFF, now=LATER)).is_swept
        assert await ledger.verify() is None

    database.run(scenario)
    assert MESSAGES not in tables(database)


def test_a_week_of_unknown_outcomes_is_not_dropped(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        record = await ledger.open("c", ANN, "one", LEASE, now=NOW)
        await ledger.save("c", record.epoch, {"messages": [{"n": 0}]}, now=NOW)
        await ledger.propose(claim("c"), record.epoch, side_effects=True, needs_approval=False, now=NOW)
        assert await ledger.start(claim("c"), record.epoch, now=NOW)
        await ledger.finish("c", "k", record.epoch, Unknown("lost"), now=NOW)
        await ledger.release("c", record.epoch, now=NOW)
        report = await ledger.prune(CUTOFF, now=LATER)
        assert (report.conversations, report.kept["unknown"]) == (0, 1)
        record = await ledger.open("c", ANN, "two", LEASE, now=LATER)
        assert record.state == {"messages": [{"n": 0}]}

    database.run(scenario)


def test_a_storm_of_turns_and_of_prunes_loses_nothing(database: Database) -> None:
    """Conversations of an old week are continued while three processes remove that week."""

    async def scenario(ledger: SqlLedger) -> None:
        ids = [f"c{number}" for number in range(60)]
        await asyncio.gather(*(talk(ledger, id) for id in ids))
        kept: set[str] = set()
        refused: set[str] = set()
        codes: set[str] = set()

        async def use(id: str) -> None:
            async with await open_ledger(database.where) as other:
                try:
                    record = await other.open(id, ANN, "two", LEASE, now=LATER)
                except LedgerError as refusal:
                    refused.add(id)
                    codes.add(refusal.code)
                    return
                assert record.state == {"messages": [{"n": 0}, {"n": 1}]}
                await other.save(id, record.epoch, {"messages": [{"n": 0}, {"n": 1}, {"n": 2}]}, now=LATER)
                kept.add(id)

        prunes = [ledger.prune(CUTOFF, now=LATER) for _ in range(3)]
        await asyncio.gather(*prunes, *(use(id) for id in ids[::6]))
        assert kept | refused == set(ids[::6])
        assert codes <= {"conversation_removed"}
        for id in ids:
            record = await ledger.load(id)
            assert (record is not None) == (id in kept)
            if record is not None:
                assert record.state == {"messages": [{"n": 0}, {"n": 1}, {"n": 2}]}
        assert await ledger.verify() is None
        await ledger.prune(CUTOFF, now=LATER)

    database.run(scenario)
    live = count(database, "ferrule_conversation WHERE pruned = 0")
    assert count(database, "ferrule_message") == 3 * live
