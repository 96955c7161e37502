"""SQLite only: durable settings, a free event loop, and errors for a file that is busy or not a ledger."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest

from ferrule.errors import LedgerError, LedgerUnavailableError
from ferrule.run.ledger.address import open_ledger
from ferrule.run.ledger.search import ConversationQuery
from ferrule.run.ledger.sqlite import SqliteLedger
from run.ledger_databases import ANN, LEASE


def test_what_is_committed_is_on_disk(tmp_path: Path) -> None:
    async def scenario() -> tuple[object, ...]:
        async with await SqliteLedger.connect(tmp_path / "ledger.db") as ledger:
            connection = ledger._connection
            assert connection is not None
            pragmas = [f"PRAGMA {name}" for name in ("journal_mode", "synchronous", "foreign_keys")]
            return await ledger._in_thread(lambda: tuple(connection.execute(text).fetchone()[0] for text in pragmas))

    full = 2
    assert asyncio.run(scenario()) == ("wal", full, 1)


def test_the_event_loop_keeps_running_while_another_process_writes_and_a_long_wait_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"

    async def scenario() -> None:
        async with await SqliteLedger.connect(path, wait=0.2) as ledger:
            other = sqlite3.connect(path, isolation_level=None)
            other.execute("BEGIN IMMEDIATE")
            opening = asyncio.ensure_future(ledger.open("c", ANN, "one", LEASE, now=0))
            turns = 0
            while not opening.done():
                await asyncio.sleep(0.001)
                turns += 1
            assert turns > 10
            with pytest.raises(LedgerUnavailableError) as refusal:
                opening.result()
            assert refusal.value.retryable
            other.execute("ROLLBACK")
            other.close()
            assert (await ledger.open("c", ANN, "one", LEASE, now=0)).epoch == 1

    asyncio.run(scenario())


def test_a_new_ledger_opens_although_another_worker_is_just_making_it(tmp_path: Path) -> None:
    """SQLite itself does not wait there, whatever its timeout is."""
    path = tmp_path / "ledger.db"

    async def scenario() -> None:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        opening = asyncio.ensure_future(SqliteLedger.connect(path))
        await asyncio.wait([opening], timeout=0.3)
        assert not opening.done(), opening.exception()
        other.execute("ROLLBACK")
        other.close()
        await (await opening).close()

    asyncio.run(scenario())


@pytest.mark.parametrize("is_sharded", [False, True])
def test_a_ledger_opens_and_is_read_while_a_writer_is_stopped(tmp_path: Path, is_sharded: bool) -> None:
    """The writer has the one lock of the file for as long as it is stopped."""
    first, second = str(tmp_path / "ledger.db"), str(tmp_path / "second.db")
    address = [first, second] if is_sharded else first

    async def scenario() -> None:
        async with await open_ledger(address) as ledger:
            await ledger.open("c", ANN, "one", LEASE, now=1)
            await ledger.save("c", 1, {"messages": [{"role": "user", "content": "apples"}]}, now=2)
        writers = [sqlite3.connect(path, isolation_level=None) for path in (first, second)[: 1 + is_sharded]]
        for writer in writers:
            writer.execute("BEGIN IMMEDIATE")
        async with await open_ledger(address) as ledger:
            assert await ledger.load("c", ANN) is not None
            assert await ledger.response("none", ANN) is None
            assert await ledger.due_continuations(10, now=3) == ()
            assert await ledger.verify("c") is None
        for writer in writers:
            writer.execute("ROLLBACK")
            writer.close()

    asyncio.run(scenario())


def test_a_ledger_that_lacks_a_table_a_column_or_an_index_is_completed_when_it_is_opened(tmp_path: Path) -> None:
    """As one of a build before the release has them, with the same version."""
    path = tmp_path / "ledger.db"

    async def reopen() -> list[tuple[str, str]]:
        async with await SqliteLedger.connect(path) as ledger:
            assert await ledger.verify() is None
        with sqlite3.connect(path) as connection:
            columns = connection.execute("SELECT name, '' FROM pragma_table_info('ferrule_audit')").fetchall()
            return columns + connection.execute("SELECT name, type FROM sqlite_master ORDER BY name").fetchall()

    whole = asyncio.run(reopen())
    for damage in (
        "DROP TABLE ferrule_owner",
        "DROP INDEX ferrule_response_unfinished",
        "ALTER TABLE ferrule_audit DROP COLUMN born",
        "CREATE INDEX ferrule_response_status ON ferrule_response (status)",
    ):
        connection = sqlite3.connect(path)
        connection.execute(damage)
        connection.commit()
        connection.close()
        assert asyncio.run(reopen()) == whole, damage


def test_a_closed_ledger_says_so(tmp_path: Path) -> None:
    async def scenario() -> None:
        ledger = await SqliteLedger.connect(tmp_path / "ledger.db")
        await ledger.close()
        await ledger.close()
        with pytest.raises(LedgerError) as refusal:
            await ledger.load("c")
        assert refusal.value.code == "ledger_closed"

    asyncio.run(scenario())


def test_a_file_that_is_no_ledger_or_a_newer_one_is_refused_unchanged(tmp_path: Path) -> None:
    junk = tmp_path / "junk.db"
    junk.write_bytes(b"not a database at all, but long enough to be read as one" * 20)
    before = junk.read_bytes()
    with pytest.raises(LedgerError) as refusal:
        asyncio.run(SqliteLedger.connect(junk))
    assert refusal.value.code == "ledger_damaged"
    assert junk.read_bytes() == before

    newer = tmp_path / "newer.db"
    connection = sqlite3.connect(newer)
    connection.executescript("CREATE TABLE ferrule_ledger (version INTEGER); INSERT INTO ferrule_ledger VALUES (99);")
    connection.execute("CREATE UNIQUE INDEX one ON ferrule_ledger (version)")
    connection.commit()
    with pytest.raises(LedgerError) as refusal:
        asyncio.run(SqliteLedger.connect(newer))
    assert refusal.value.code == "ledger_version"
    assert connection.execute("SELECT name FROM sqlite_master WHERE name LIKE 'ferrule%'").fetchall() == [
        ("ferrule_ledger",)
    ]
    connection.close()


def test_a_search_reads_every_message_where_sqlite_has_no_fts5(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes with and without FTS5 use one file: each can write, and each finds what the other has written."""
    path = tmp_path / "ledger.db"

    async def write_and_search(number: int) -> list[str]:
        async with await SqliteLedger.connect(path) as ledger:
            record = await ledger.open(f"c{number}", ANN, "one", LEASE, now=number)
            state = {"messages": [{"role": "user", "content": f"Harpsichord number{number}, 天气很好"}]}
            await ledger.save(record.id, record.epoch, state, now=number)
            lists = [
                [line.id for line in await ledger.conversations_of(ANN.tenant, ConversationQuery(text=text))]
                for text in ("harpsichord", "天气", "harpsichord")
            ]
            assert lists[0] == lists[1] == lists[2]
            return lists[0]

    for number in range(6):
        with monkeypatch.context() as patch:
            if number % 3 != 1:
                patch.setattr("ferrule.run.ledger.sqlite.has_fts5", lambda _connection: False)
            assert asyncio.run(write_and_search(number)) == [f"c{one}" for one in range(number, -1, -1)]
    waiting = "SELECT COUNT(*) FROM ferrule_word_waiting"
    with sqlite3.connect(path) as connection:
        assert connection.execute(waiting).fetchone() == (1,)


def test_what_was_written_reaches_the_index_without_a_search(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with await SqliteLedger.connect(tmp_path / "ledger.db") as ledger:
            for number in range(150):
                record = await ledger.open(f"c{number}", ANN, "one", LEASE, now=number)
                await ledger.save(record.id, record.epoch, {"messages": [{"content": f"word{number}"}]}, now=number)
            connection = ledger._connection
            assert connection is not None
            waiting = "SELECT COUNT(*) FROM ferrule_word_waiting"
            while (await ledger._in_thread(lambda: connection.execute(waiting).fetchone()))[0] > 100:
                await asyncio.sleep(0.01)

    asyncio.run(scenario())
