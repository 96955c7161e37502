"""In Postgres, messages and audit rows lie in weekly partitions: made ahead, and around the tables that were there."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from ferrule.core.json_text import dumps
from ferrule.errors import LedgerError
from ferrule.run.ledger import partitions, postgres_tables
from ferrule.run.ledger.address import migrate_ledger, open_ledger
from ferrule.run.ledger.ledger import Ledger
from ferrule.run.ledger.partitions import DAY_SECONDS, KEYS, WEEK_DAYS, Partition, day_of, week_of
from ferrule.run.ledger.postgres_tables import DIALECT
from ferrule.run.ledger.sql import SqlLedger
from ferrule.run.ledger.tables import TABLES
from run.ledger_databases import ANN, LEASE, Database, claim, postgres_database

pytestmark = pytest.mark.live
NOW = time.time()
WEEK = WEEK_DAYS * DAY_SECONDS


@pytest.fixture
def database(cluster: Path) -> Database:
    return postgres_database(cluster)


def partitions_of(database: Database, table: str) -> list[Partition]:
    rows = database.execute(partitions.FIND_PARTITIONS.format(table=table), ())
    return [partitions.read_partition(table, name, bounds) for name, bounds in rows]


def partition_of_row(database: Database, table: str, conversation: str) -> set[str]:
    text = f"SELECT tableoid::regclass::text FROM {table} WHERE conversation = ?"
    return {name.rpartition(".")[2] for (name,) in database.execute(text, [conversation])}


async def talk(ledger: Ledger, id: str, now: float) -> None:
    """Open a conversation, save two messages, make a call, and release it."""
    record = await ledger.open(id, ANN, "one", LEASE, now=now)
    await ledger.save(id, record.epoch, {"messages": [{"n": 0}, {"n": 1}]}, now=now)
    await ledger.propose(claim(id), record.epoch, side_effects=True, needs_approval=False, now=now)
    await ledger.release(id, record.epoch, now=now)


def test_a_new_ledger_has_the_partitions_of_five_weeks_and_a_default(database: Database) -> None:
    database.run(lambda ledger: talk(ledger, "c", NOW))
    week = week_of(day_of(NOW))
    for table in KEYS:
        found = partitions_of(database, table)
        assert [one.name for one in found if one.is_default] == [f"{table}_default"]
        assert not partitions.missing_weeks(found, day_of(NOW))
        assert partition_of_row(database, table, "c") == {f"{table}_{week}"}


def test_a_missing_week_stops_nothing_and_its_rows_move_when_it_is_made(database: Database) -> None:
    later = NOW + 20 * WEEK

    async def scenario(ledger: SqlLedger) -> None:
        await talk(ledger, "c", later)
        assert {name for table in KEYS for name in partition_of_row(database, table, "c")} == {
            "ferrule_message_default",
            "ferrule_audit_default",
        }
        await ledger.maintain(now=later)
        week = week_of(day_of(later))
        for table in KEYS:
            assert partition_of_row(database, table, "c") == {f"{table}_{week}"}
        record = await ledger.load("c")
        assert record is not None
        assert record.state == {"messages": [{"n": 0}, {"n": 1}]}
        assert await ledger.verify() is None

    database.run(scenario)


def test_many_processes_make_the_same_weeks_at_the_same_time(database: Database) -> None:
    later = NOW + 30 * WEEK

    async def scenario(_: SqlLedger) -> None:
        ledgers = [await open_ledger(database.where) for _ in range(4)]
        await asyncio.gather(*(one.maintain(now=later) for one in ledgers), *(talk(ledgers[0], "c", later),))
        assert await ledgers[0].verify() is None
        for one in ledgers:
            await one.close()

    database.run(scenario)
    assert not partitions.missing_weeks(partitions_of(database, "ferrule_audit"), day_of(later))


def test_a_look_at_weeks_that_are_made_asks_the_database_nothing(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        database.execute(f"DROP TABLE ferrule_message_{week_of(day_of(NOW)) + 2 * WEEK_DAYS}", ())
        await ledger.maintain(now=NOW)
        assert partitions.missing_weeks(partitions_of(database, "ferrule_message"), day_of(NOW))

    database.run(scenario)
    # The next process that opens it makes what is missing.
    database.run(lambda ledger: ledger.verify())
    assert not partitions.missing_weeks(partitions_of(database, "ferrule_message"), day_of(NOW))


def write_plain_tables(database: Database) -> None:
    """A ledger between two releases: of this version, and without partitions."""
    for text in DIALECT.schema(TABLES):
        database.execute(text, ())
    for text in DIALECT.new_columns("ferrule_conversation"):
        if "pruned" not in text:
            database.execute(text, ())
    database.execute("INSERT INTO ferrule_ledger (version) VALUES (6)", ())
    born = day_of(NOW)
    database.execute(
        "INSERT INTO ferrule_conversation (id, tenant, principal, owner, epoch, lease_until, version, state, "
        "audit_seq, audit_head, messages, opened_at, changed_at, born) "
        "VALUES ('c', 'acme', 'ann', 'x', 1, 0, 1, ?, 0, ?, 1, ?, ?, ?)",
        [dumps({"messages": 1}), "0" * 64, NOW, NOW, born],
    )
    database.execute("INSERT INTO ferrule_message VALUES (?, 'c', 0, '{\"n\":0}')", [born])


def test_tables_of_this_version_without_partitions_become_the_early_partition(database: Database) -> None:
    write_plain_tables(database)
    born = day_of(NOW)

    async def scenario(ledger: SqlLedger) -> None:
        record = await ledger.open("c", ANN, "two", LEASE, now=NOW)
        assert record.state == {"messages": [{"n": 0}]}
        await ledger.save("c", record.epoch, {"messages": [{"n": 0}, {"n": 1}]}, now=NOW)
        assert await ledger.verify() is None
        await talk(ledger, "d", NOW + WEEK)

    database.run(scenario)
    assert partition_of_row(database, "ferrule_message", "c") == {"ferrule_message_early"}
    assert partition_of_row(database, "ferrule_message", "d") == {f"ferrule_message_{week_of(born) + WEEK_DAYS}"}
    assert not partitions.missing_weeks(partitions_of(database, "ferrule_message"), born)


def test_a_chain_is_found_in_two_partitions(database: Database) -> None:
    """The conversation was opened by a process of an earlier version, and continued by one of this version."""

    async def scenario(ledger: SqlLedger) -> None:
        await talk(ledger, "c", NOW)
        # As an earlier version writes them: without `born`.
        database.execute("UPDATE ferrule_audit SET born = 0 WHERE seq <= 2", ())
        assert len(partition_of_row(database, "ferrule_audit", "c")) == 2
        assert [row.seq for row in await ledger.audit("c")] == [1, 2, 3, 4]
        assert await ledger.verify() is None
        assert await ledger.verify("c") is None

    database.run(scenario)


def test_a_large_ledger_is_raised_by_a_migration_and_not_when_it_is_opened(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_tables, "_MAX_BYTES_WHEN_OPENED", 0)
    write_plain_tables(database)
    with pytest.raises(LedgerError) as refused:
        database.run(lambda ledger: ledger.verify())
    assert refused.value.code == "ledger_migration_needed"
    # An earlier migration was killed while it built an index.
    database.execute("ALTER TABLE ferrule_audit ADD COLUMN born BIGINT NOT NULL DEFAULT 0", ())
    index = partitions.EARLY_INDEX
    database.execute(f"CREATE UNIQUE INDEX {index} ON ferrule_audit (conversation, seq, born)", ())
    database.execute(f"UPDATE pg_index SET indisvalid = false WHERE indexrelid = to_regclass('{index}')", ())
    notes: list[str] = []

    async def migrate() -> None:
        async with await migrate_ledger(database.where, notes.append) as ledger:
            record = await ledger.load("c")
            assert record is not None
            assert record.state == {"messages": [{"n": 0}]}

    asyncio.run(migrate())
    assert "raising the tables" in notes
    assert partition_of_row(database, "ferrule_message", "c") == {"ferrule_message_early"}
    valid = "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(?)"
    assert database.execute(valid, [index]) == [(True,)]
    # The check that was needed for a moment is gone.
    assert database.execute("SELECT 1 FROM pg_constraint WHERE conname = 'ferrule_early'", ()) == []
    assert database.run(lambda ledger: ledger.load("c")) is not None
