"""A ledger that version 5 has written is raised to this version with everything in it.

`ledger_version_5.json` holds the tables of version 5 and what release 0.1.0 wrote into them: a conversation that has
ended, one that waits for approval, and a stored response.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

import pytest

from ferrule import CallContext, Reply, ToolConversation, tool
from ferrule.core.context import Principal
from ferrule.engines.fake import FakeEngine
from ferrule.run.ledger.address import open_ledger
from ferrule.run.ledger.audit_chain import GENESIS, hash_of
from ferrule.run.ledger.ledger import ApprovalState, AuditRecord, CallState, Ledger
from ferrule.run.ledger.postgres import PostgresLedger
from ferrule.run.ledger.search import ConversationQuery
from ferrule.run.ledger.sql import SqlLedger
from ferrule.run.ledger.tables import AUDIT
from run.ledger_databases import Database, postgres_database
from run.old_ledger import write_old_ledger

ANN = CallContext(principal=Principal("ann", "acme"))
LATER = time.time() + 3600
paid: list[int] = []


@tool
async def look(city: str) -> str:
    """Looks."""
    return f"{city}: sunny"


@tool(side_effects=True)
async def pay(amount: int) -> str:
    """Pays."""
    paid.append(amount)
    return "paid"


@pytest.fixture
def old(single_database: Database) -> Database:
    """A database with what version 5 has written."""
    database = single_database
    write_old_ledger(database)
    paid.clear()
    return database


async def opened(ledger: SqlLedger, id: str, *replies: Reply) -> ToolConversation:
    engine = FakeEngine([*replies])
    return await ToolConversation.open(ledger, id, engine, [look, pay], context=ANN, clock=lambda: LATER)


def test_a_list_shows_what_the_earlier_version_has_written(old: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        lines = await ledger.conversations_of("acme", ConversationQuery())
        titles = {line.id: line.title for line in lines}
        assert titles == {"ended": "How is Bern?\\u202e é", "waiting": "Pay 5 for Thun.", "stored": ""}
        assert all(0 < line.opened_at <= line.changed_at for line in lines)
        for text, ids in {"sunny in bern": ["ended"], "thun": ["waiting"], "nowhere": []}.items():
            # At first every message is read, and soon there is an index.
            for _ in range(3):
                found = await ledger.conversations_of("acme", ConversationQuery(text=text))
                assert [line.id for line in found] == ids
                await _indexes_built(ledger)
        assert await ledger.verify() is None

    old.run(scenario)


async def _indexes_built(ledger: Ledger) -> None:
    if isinstance(ledger, PostgresLedger):
        while await ledger._search_words("a") is None:  # pyright: ignore[reportPrivateUsage]
            await asyncio.sleep(0.01)


def test_a_conversation_that_has_ended_is_continued_and_its_chain_holds(old: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        talk = await opened(ledger, "ended", Reply.of("You are welcome."))
        before = len(talk.messages)
        assert (await talk.send_message("Thank you.")).text == "You are welcome."
        await talk.close()
        again = await opened(ledger, "ended")
        assert again.messages == talk.messages
        assert len(again.messages) == before + 2
        assert again.messages[1].content == "How is Bern?\u202e é"
        stored = old.execute("SELECT COUNT(*) FROM ferrule_message WHERE conversation = 'ended'", ())
        assert stored == [(before + 2,)]
        assert await ledger.verify() is None
        lines = await ledger.conversations_of("acme", ConversationQuery(text="sunny in bern"))
        assert [line.id for line in lines] == ["ended"]

    old.run(scenario)


def test_a_call_that_waits_for_approval_is_approved_and_runs_once(old: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        (approval,) = await ledger.approvals(ApprovalState.PENDING)
        await ledger.approve(approval.id, "bob", now=approval.requested_at + 1)
        talk = await ToolConversation.open(
            *(ledger, "waiting", FakeEngine([Reply.of("Paid.")]), [look, pay]),
            context=ANN,
            clock=lambda: approval.requested_at + 60,
        )
        assert talk.is_unfinished
        turn = await talk.resume()
        assert (turn.text, paid) == ("Paid.", [5])
        states = {call.tool: call.state for call in await ledger.calls("waiting")}
        assert states == {"look": CallState.DONE, "pay": CallState.DONE}
        assert await ledger.verify() is None

    old.run(scenario)


def test_a_stored_response_keeps_its_events_and_can_be_taken_over(old: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        (response,) = await ledger.unfinished_responses(10, now=LATER)
        assert response.id == "resp_1"
        assert await ledger.response_events("resp_1") == ('{"n":0}', '{"n":1}')
        record = await ledger.open("stored", ANN.principal, "two", 30.0, now=LATER)
        await ledger.append_events("resp_1", record.epoch, ['{"n":2}'], first=2, now=LATER)
        assert len(await ledger.response_events("resp_1")) == 3
        assert await ledger.verify() is None

    old.run(scenario)


def test_a_process_of_the_earlier_version_still_writes_while_it_runs(old: Database) -> None:
    """It knows neither the new columns nor the new tables; what it writes is valid, and found by this version."""
    late: dict[str, Any] = {"id": "late", "tenant": "acme", "principal": "ann", "owner": "old", "epoch": 1}
    late |= {"lease_until": 0.0, "version": 0, "state": "null", "audit_seq": 0, "audit_head": "0" * 64}

    async def scenario(ledger: SqlLedger) -> None:
        columns, marks = ", ".join(late), ", ".join("?" for _ in late)
        old.execute(f"INSERT INTO ferrule_conversation ({columns}) VALUES ({marks})", [*late.values()])
        talk = await opened(ledger, "late", Reply.of("Hello."))
        assert (await talk.send_message("Hi.")).text == "Hello."

    old.run(scenario)


def test_audit_rows_that_the_earlier_version_writes_later_belong_to_the_chain(old: Database) -> None:
    """It knows no partitions. Its conversation is then filled in, continued by this version, and removed."""
    row = AuditRecord("late", 1, LATER, "opened", "", "", "old", 1, "{}", GENESIS, "")
    row = replace(row, hash=hash_of(row))
    late: dict[str, Any] = {"id": "late", "tenant": "acme", "principal": "ann", "owner": "old", "epoch": 1}
    late |= {"lease_until": 0.0, "version": 0, "state": "null", "audit_seq": 1, "audit_head": row.hash}

    async def scenario(ledger: SqlLedger) -> None:
        for table, values in (("ferrule_conversation", [*late.values()]), ("ferrule_audit", [*astuple(row)])):
            columns = ", ".join(late) if table == "ferrule_conversation" else AUDIT
            old.execute(f"INSERT INTO {table} ({columns}) VALUES ({', '.join('?' for _ in values)})", values)
        assert await ledger.fill_conversations(lambda _: asyncio.sleep(0)) == 1
        talk = await opened(ledger, "late", Reply.of("Hello."))
        await talk.send_message("Hi.")
        await talk.close()
        assert old.execute("SELECT COUNT(DISTINCT born) FROM ferrule_audit WHERE conversation = 'late'", ()) == [(2,)]
        assert [one.seq for one in await ledger.audit("late")][:2] == [1, 2]
        assert await ledger.verify() is None
        report = await ledger.prune(LATER + 60, LATER + 60, now=LATER + 7200)
        assert report.conversations == report.audits
        assert await ledger.audit("late") == ()
        assert await ledger.verify() is None

    old.run(scenario)


WORDS = "ferrule_message_words"


@pytest.mark.live
def test_a_postgres_ledger_of_this_version_without_its_indexes_gets_them_while_others_write(cluster: Path) -> None:
    database = postgres_database(cluster)

    def forget_indexes() -> None:
        for name in (WORDS, "ferrule_traced_request_words", "ferrule_approval_listed", "ferrule_response_unfinished"):
            database.execute(f"DROP INDEX {name}", ())

    async def write(ledger: SqlLedger, first: int) -> None:
        for number in range(first, first + 20):
            record = await ledger.open(f"c{number}", ANN.principal, "one", 10.0, now=number)
            await ledger.save(record.id, record.epoch, {"messages": [{"content": f"word{number} every"}]}, now=number)

    async def scenario(ledger: SqlLedger) -> None:
        await write(ledger, 0)
        forget_indexes()
        async with await open_ledger(database.where) as other:
            await asyncio.gather(write(ledger, 20), _indexes_built(other))
            for one in (ledger, other):
                assert len(await one.conversations_of("acme", ConversationQuery(text="every", limit=100))) == 40
                (line,) = await one.conversations_of("acme", ConversationQuery(text="word33"))
                assert line.id == "c33"

    database.run(scenario)
    # An index that was not completed is built again.
    database.execute("UPDATE pg_index SET indisvalid = FALSE WHERE indexrelid = ?::regclass", (WORDS,))
    database.run(_indexes_built)
    assert database.execute("SELECT indisvalid FROM pg_index WHERE indexrelid = ?::regclass", (WORDS,)) == [(True,)]


@pytest.mark.live
def test_a_partitioned_table_gets_its_index_in_every_partition(cluster: Path) -> None:
    database = postgres_database(cluster)

    async def scenario(ledger: SqlLedger) -> None:
        record = await ledger.open("a", ANN.principal, "one", 10.0, now=86_400.0)
        await ledger.save("a", record.epoch, {"messages": [{"content": "harpsichord"}]}, now=86_400.0)

    async def search(ledger: SqlLedger) -> None:
        await _indexes_built(ledger)
        (line,) = await ledger.conversations_of("acme", ConversationQuery(text="Harpsichord"))
        assert line.id == "a"

    database.run(scenario)
    for text in (
        "ALTER TABLE ferrule_message RENAME TO ferrule_message_old",
        f"DROP INDEX {WORDS}",
        "CREATE TABLE ferrule_message (born BIGINT NOT NULL, conversation TEXT NOT NULL, n BIGINT NOT NULL, "
        "body TEXT NOT NULL, PRIMARY KEY (conversation, n, born)) PARTITION BY RANGE (born)",
        "CREATE TABLE ferrule_message_w0 PARTITION OF ferrule_message FOR VALUES FROM (0) TO (7)",
        "CREATE TABLE ferrule_message_rest PARTITION OF ferrule_message DEFAULT",
        "INSERT INTO ferrule_message SELECT * FROM ferrule_message_old",
    ):
        database.execute(text, ())
    database.run(search)
    count = "SELECT COUNT(*) FROM pg_inherits WHERE inhparent = ?::regclass"
    assert database.execute(count, (WORDS,)) == [(2,)]
    database.execute("CREATE TABLE ferrule_message_w1 PARTITION OF ferrule_message FOR VALUES FROM (7) TO (14)", ())
    assert database.execute(count, (WORDS,)) == [(3,)]
    database.run(search)
