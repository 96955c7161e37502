"""Old conversations are removed, and one person's on demand: what goes, what stays, and that nothing can run twice."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ferrule.core.context import Principal
from ferrule.core.outcome import Answered, Unknown
from ferrule.errors import ApprovalError, FencedError, LedgerError
from ferrule.run.ledger.address import open_ledger
from ferrule.run.ledger.ledger import Approval, ResponseRecord, ResponseStatus, StoredRequest
from ferrule.run.ledger.search import ConversationQuery
from ferrule.run.ledger.sql import SqlLedger
from ferrule.run.ledger.trace import TracedRequest, TraceQuery, TraceStatus
from ferrule.run.reply_record import ReplyCost, ReplyRecord
from run.ledger_databases import ANN, LEASE, Database, claim, sqlite_database

DAY = 86_400.0
NOW = time.time()
OLD = NOW - 100 * DAY
CUTOFF = NOW - 30 * DAY
SECRET = "swordfish"
EVE = Principal("eve", "acme")
HOSTILE = ["'; DROP TABLE ferrule_audit; --", "%_!", "ä" * 200, "\\x00", "{gone}", "%s", "?", "\u202eabc", '"', "0"]
# A stub holds no text of its conversation; an audit row names everything by its hash.
TABLES_WITHOUT_CONTENT = ("ferrule_audit", "ferrule_conversation")
CONTENT_TABLES = (
    "ferrule_message",
    "ferrule_call",
    "ferrule_approval",
    "ferrule_approval_terms",
    "ferrule_vote",
    "ferrule_response",
    "ferrule_event",
    "ferrule_response_event",
    "ferrule_selection",
    "ferrule_pick",
    "ferrule_continuation",
    "ferrule_request",
    "ferrule_trace",
    "ferrule_traced_request",
    "ferrule_trace_tool",
)


async def full_conversation(
    ledger: SqlLedger, id: str, at: float, principal: Principal = ANN, *, is_released: bool = True
) -> Approval:
    """A conversation with something in every table."""
    whose = {"tenant": principal.tenant, "principal": principal.name}
    record = await ledger.open(id, principal, "one", LEASE, now=at)
    epoch = record.epoch
    request = StoredRequest(id, principal.tenant, principal.name, "chat", f"b-{id}", f"key-{id}", at, f'"{SECRET}"')
    await ledger.claim_request(request, is_retry=False, now=at)
    traced = TracedRequest(
        id=f"request_{id}",
        tenant=principal.tenant,
        principal=principal.name,
        at=at,
        api="chat",
        request_id=f"r-{id}",
        seconds=1.0,
        status=TraceStatus.COMPLETED,
        model="m",
        finish="stop",
        title=SECRET,
        conversation=id,
        tools=("pay",),
    )
    await ledger.record_requests([traced])
    response = ResponseRecord(
        *(f"resp_{id}", id, principal.tenant, principal.name),
        *(ResponseStatus.IN_PROGRESS, "m", at, 0, False, f'"{SECRET}"'),
    )
    await ledger.add_response(response, epoch, [f'"{SECRET}"'], {"messages": [{"text": SECRET}]}, now=at)
    await ledger.record_reply(ReplyRecord(id, "0", "m", None, ReplyCost()), epoch, now=at)
    call = claim(id, "k", {"text": SECRET}, **whose)
    await ledger.propose(call, epoch, side_effects=True, needs_approval=True, now=at)
    approval = await ledger.request_approval(id, "k", epoch, expires=at + DAY, now=at)
    await ledger.approve(approval.id, "bob", now=at)
    assert await ledger.start(call, epoch, approval=approval.id, now=at)
    await ledger.finish(id, "k", epoch, Answered(SECRET), now=at)
    await ledger.append_events(f"resp_{id}", epoch, [], first=1, status=ResponseStatus.COMPLETED, reach=1, now=at)
    (due,) = [one for one in [await ledger.continuation(id)] if one is not None]
    assert await ledger.end_continuation(due, "done", now=at)
    if not is_released:
        await ledger.open(id, principal, "two", LEASE, now=at)
    return approval


def rows_with(database: Database, tables: Sequence[str], text: str) -> dict[str, int]:
    """How many rows of each table contain a text, in any column."""
    found: dict[str, int] = {}
    for table in tables:
        count = sum(text in str([_plain(one) for one in row]) for row in database.execute(f"SELECT * FROM {table}", ()))
        if count:
            found[table] = count
    return found


def _plain(value: Any) -> Any:
    return bytes(value) if isinstance(value, bytes | memoryview) else value


def test_an_old_conversation_loses_all_content_and_its_chain_stays_whole(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        await full_conversation(ledger, "old", OLD)
        await full_conversation(ledger, "new", NOW)
        before = await ledger.audit("old")
        dry = await ledger.prune(CUTOFF, now=NOW, is_dry_run=True)
        assert (dry.conversations, await ledger.load("old") is not None) == (1, True)

        report = await ledger.prune(CUTOFF, now=NOW)
        assert (report.conversations, report.audits, dict(report.kept)) == (1, 0, {})
        after = await ledger.audit("old")
        assert after[:-1] == before
        assert (after[-1].kind, after[-1].by) == ("pruned", "retention")
        assert json.loads(after[-1].detail)["principal"] == "ann"
        assert await ledger.verify() is None
        assert await ledger.verify("old") is None
        assert await ledger.load("old") is None
        assert [one.id for one in await ledger.conversations_of("acme", ConversationQuery())] == ["new"]
        assert [one.id for one in await ledger.traces_of("acme", TraceQuery())] == ["trace_new"]
        # Again: there is nothing left to do.
        assert (await ledger.prune(CUTOFF, now=NOW)).conversations == 0

    database.run(scenario)
    assert rows_with(database, TABLES_WITHOUT_CONTENT, SECRET) == {}
    left = rows_with(database, CONTENT_TABLES, "old")
    assert left == {}, left
    assert set(rows_with(database, CONTENT_TABLES, SECRET)) <= set(rows_with(database, CONTENT_TABLES, "new"))


def test_a_removed_id_can_never_be_opened_again(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        approval = await full_conversation(ledger, "old", OLD)
        await ledger.prune(CUTOFF, now=NOW)
        for principal in (ANN, EVE):
            with pytest.raises(LedgerError) as refused:
                await ledger.open("old", principal, "two", LEASE, now=NOW + 1e9)
            assert refused.value.code == "conversation_removed"
        with pytest.raises(LedgerError):
            await ledger.take_over("old", "two", LEASE, now=NOW + 1e9)
        with pytest.raises(FencedError):
            await ledger.start(claim("old", "k", {"text": SECRET}), 1, now=NOW)
        with pytest.raises(ApprovalError):
            await ledger.approve(approval.id, "bob", now=NOW)
        assert await ledger.approval(approval.id) is None
        assert await ledger.cancel_response("resp_old", ANN, now=NOW) is None

    database.run(scenario)


def test_what_is_held_waits_or_has_an_unknown_outcome_is_kept(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        for id in ("pending", "unfinished", "unknown", "read", "expired"):
            record = await ledger.open(id, ANN, "one", LEASE, now=OLD)
            needs_approval = id in ("pending", "expired")
            await ledger.propose(
                claim(id), record.epoch, side_effects=id != "read", needs_approval=needs_approval, now=OLD
            )
            if needs_approval:
                expires = NOW + DAY if id == "pending" else OLD + DAY
                await ledger.request_approval(id, "k", record.epoch, expires=expires, now=OLD)
            if id == "unfinished":
                response = ResponseRecord("r", id, "acme", "ann", ResponseStatus.QUEUED, "m", OLD, 0, False, "null")
                await ledger.add_response(response, record.epoch, [], now=OLD)
            if id in ("unknown", "read"):
                assert await ledger.start(claim(id), record.epoch, now=OLD)
                await ledger.finish(id, "k", record.epoch, Unknown("lost"), now=OLD)
            await ledger.release(id, record.epoch, now=OLD)
        await ledger.open("held", ANN, "one", 1000 * DAY, now=OLD)

        report = await ledger.prune(CUTOFF, now=NOW)
        # An approval that nobody can give any more, and a call that only reads, keep nothing.
        assert report.conversations == 2
        assert report.kept == {"held": 1, "waiting": 2, "unknown": 1}
        for id in ("pending", "unfinished", "unknown", "held"):
            assert await ledger.load(id) is not None
        # At the age of the audit log, the unknown outcome is forgotten too.
        report = await ledger.prune(CUTOFF, CUTOFF, now=NOW)
        assert (report.conversations, report.audits) == (1, 3)
        assert await ledger.audit("unknown") == ()
        assert await ledger.verify() is None

    database.run(scenario)


def test_the_audit_log_goes_at_its_own_age_and_nothing_remains(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        await full_conversation(ledger, "older", OLD - 100 * DAY)
        await full_conversation(ledger, "old", OLD)
        await full_conversation(ledger, "new", NOW)
        report = await ledger.prune(CUTOFF, NOW - 150 * DAY, now=NOW)
        assert (report.conversations, report.audits) == (2, 1)
        assert await ledger.audit("older") == ()
        assert (await ledger.audit("old"))[-1].kind == "pruned"
        assert await ledger.verify() is None

    database.run(scenario)
    assert rows_with(database, (*CONTENT_TABLES, *TABLES_WITHOUT_CONTENT), "older") == {}


def test_everything_of_one_person_is_deleted_whatever_its_age(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        await full_conversation(ledger, "a1", OLD)
        await full_conversation(ledger, "a2", NOW - 2 * DAY)
        await full_conversation(ledger, "e1", NOW - 2 * DAY, EVE)
        record = await ledger.open("a3", ANN, "one", LEASE, now=NOW - 60)
        await ledger.propose(claim("a3"), record.epoch, side_effects=True, needs_approval=True, now=NOW - 60)
        approval = await ledger.request_approval("a3", "k", record.epoch, expires=NOW + DAY, now=NOW - 60)
        await ledger.open("held", ANN, "one", LEASE, now=NOW)
        traced = TracedRequest(
            id="request_x", tenant="acme", principal="ann", at=NOW, api="chat", request_id="x", title=SECRET
        )
        await ledger.record_requests([traced])

        report = await ledger.delete_principal(ANN, "dpo", now=NOW)
        assert (report.conversations, report.held_ids) == (3, ["held"])
        with pytest.raises(ApprovalError):
            await ledger.approve(approval.id, "bob", now=NOW)
        for id in ("a1", "a2", "a3"):
            row = (await ledger.audit(id))[-1]
            assert (row.kind, row.by) == ("deleted", "dpo")
            assert "ann" not in row.detail
        assert await ledger.verify() is None
        assert await ledger.load("e1", EVE) is not None
        # When it has ended, the rest goes.
        await ledger.release("held", 1, now=NOW)
        assert (await ledger.delete_principal(ANN, now=NOW)).held_ids == []

    database.run(scenario)
    assert rows_with(database, (*CONTENT_TABLES, *TABLES_WITHOUT_CONTENT), "'ann'") == {}


def test_a_retry_of_a_deleted_request_does_not_begin_it_again(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        await full_conversation(ledger, "c", NOW - 60)
        request = StoredRequest("resp_c", "acme", "ann", "responses", "b", "key-r", NOW - 60, f'"{SECRET}"')
        await ledger.claim_request(request, is_retry=False, now=NOW - 60)
        assert (await ledger.delete_principal(ANN, now=NOW)).conversations == 1
        for key, answer, api in (("key-c", "c", "chat"), ("key-r", "resp_c", "responses")):
            body = "b-c" if api == "chat" else "b"
            retry = StoredRequest("new", "acme", "ann", api, body, key, 0.0, "{}")
            assert (await ledger.claim_request(retry, is_retry=True, now=NOW)).answer == answer
        with pytest.raises(LedgerError):
            await ledger.open("c", ANN, "two", LEASE, now=NOW)
        # Not "failed", which a retry would replace by a new one.
        kept = await ledger.response("resp_c", ANN)
        assert kept is not None
        assert (kept.status, kept.request_text) == (ResponseStatus.CANCELLED, "null")
        # When the keys have run out, they go.
        await ledger.prune(NOW - DAY, now=NOW + 2 * DAY)
        assert await ledger.response("resp_c") is None
        assert await ledger.stored_request("resp_c") is None
        assert await ledger.verify() is None

    database.run(scenario)
    assert rows_with(database, (*CONTENT_TABLES, *TABLES_WITHOUT_CONTENT), SECRET) == {}


@pytest.mark.parametrize("id", HOSTILE)
def test_hostile_ids_are_removed_like_others(database: Database, id: str) -> None:
    principal = Principal(id, "acme")

    async def scenario(ledger: SqlLedger) -> None:
        for name, at in ((id, OLD), (f"{id}2", NOW)):
            record = await ledger.open(name, principal, "one", LEASE, now=at)
            await ledger.save(name, record.epoch, {"messages": [{"text": id}]}, now=at)
            await ledger.release(name, record.epoch, now=at)
        assert (await ledger.prune(CUTOFF, now=NOW)).conversations == 1
        assert await ledger.verify() is None
        assert await ledger.load(f"{id}2", principal) is not None
        assert (await ledger.delete_principal(principal, now=NOW)).conversations == 1
        assert (await ledger.prune(CUTOFF, CUTOFF, now=NOW)).audits == 1
        assert await ledger.verify() is None

    database.run(scenario)


def test_the_last_audit_row_decides_how_old_a_conversation_is(database: Database) -> None:
    """A process of an earlier version adds audit rows, and does not note the time in the conversation."""

    async def scenario(ledger: SqlLedger) -> None:
        record = await ledger.open("c", ANN, "one", LEASE, now=NOW)
        await ledger.release("c", record.epoch, now=NOW)
        database.execute("UPDATE ferrule_conversation SET opened_at = ?, changed_at = ?, born = 0", [OLD, OLD])
        database.execute("UPDATE ferrule_audit SET born = 0", ())
        assert (await ledger.prune(CUTOFF, now=NOW)).conversations == 0
        assert (await ledger.prune(NOW + 1, now=NOW + 1)).conversations == 1
        assert await ledger.verify() is None

    database.run(scenario)


def test_a_conversation_that_a_living_process_keeps_stays_and_that_of_a_dead_one_goes(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        for id, clock in (("living", lambda: NOW), ("dead", lambda: OLD)):
            await ledger.open(id, ANN, f"owner of {id}", LEASE, now=OLD)
            await ledger.keep(id, 1, 1000.0, clock)
        report = await ledger.prune(CUTOFF, now=NOW)
        assert (report.conversations, dict(report.kept)) == (1, {"held": 1})
        assert await ledger.load("dead", ANN) is None
        deleted = await ledger.delete_principal(ANN, now=NOW)
        assert deleted.held_ids == ["living"]
        assert await ledger.load("living", ANN) is not None

    database.run(scenario)


def test_of_a_process_that_opens_and_one_that_removes_a_conversation_one_wins(database: Database) -> None:
    """The call in it has run. Opened or removed, it does not run again."""

    async def scenario(ledger: SqlLedger) -> None:
        ids = [f"c{number}" for number in range(16)]
        for id in ids:
            record = await ledger.open(id, ANN, "one", LEASE, now=OLD)
            await ledger.propose(claim(id), record.epoch, side_effects=True, needs_approval=False, now=OLD)
            assert await ledger.start(claim(id), record.epoch, now=OLD)
            await ledger.finish(id, "k", record.epoch, Answered("paid"), now=OLD)
            await ledger.release(id, record.epoch, now=OLD)
        outcomes: dict[str, str] = {}

        async def use(id: str, opened: SqlLedger) -> None:
            try:
                record = await opened.open(id, ANN, "two", LEASE, now=NOW)
            except LedgerError as refusal:
                outcomes[id] = refusal.code
                return
            assert not await opened.start(claim(id), record.epoch, now=NOW)
            outcomes[id] = "opened"

        async with await open_ledger(database.where) as other, await open_ledger(database.where) as third:
            prunes = [one.prune(CUTOFF, now=NOW) for one in (other, third)]
            await asyncio.gather(*(use(id, ledger) for id in ids[:8]), *prunes, *(use(id, ledger) for id in ids[8:]))
        assert set(outcomes) == set(ids)
        for id, outcome in outcomes.items():
            assert (await ledger.load(id) is not None) == (outcome == "opened")
            assert outcome in ("opened", "conversation_removed")
            started = [row for row in await ledger.audit(id) if row.kind == "started"]
            assert len(started) == 1
        assert await ledger.verify() is None

    database.run(scenario)


def test_an_owner_that_wakes_after_its_conversation_was_removed_is_fenced(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        await ledger.open("c", ANN, "one", LEASE, now=OLD)
        async with await open_ledger(database.where) as other:
            assert (await other.prune(CUTOFF, now=NOW)).conversations == 1
        with pytest.raises(FencedError):
            await ledger.save("c", 1, {"messages": [{"text": SECRET}]}, now=NOW)
        with pytest.raises(FencedError):
            await ledger.renew("c", 1, LEASE, now=NOW)
        with pytest.raises(FencedError):
            await ledger.propose(claim("c"), 1, side_effects=True, needs_approval=False, now=NOW)
        assert await ledger.verify() is None

    database.run(scenario)
    assert rows_with(database, ("ferrule_message", "ferrule_call"), "c") == {}


def test_in_sqlite_the_index_of_words_forgets_with_the_messages(tmp_path: Path) -> None:
    database = sqlite_database(tmp_path)
    words = "SELECT COUNT(*) FROM ferrule_words WHERE ferrule_words MATCH ?"

    async def scenario(ledger: SqlLedger) -> None:
        for id, principal, at in (("old", ANN, OLD), ("hers", EVE, NOW), ("his", ANN, NOW)):
            await full_conversation(ledger, id, at, principal)
        assert await ledger.conversations_of("acme", ConversationQuery(text=SECRET))
        assert database.execute(words, (SECRET,)) == [(3,)]
        await ledger.prune(CUTOFF, now=NOW)
        assert database.execute(words, (SECRET,)) == [(2,)]
        await ledger.delete_principal(EVE, now=NOW)
        assert database.execute(words, (SECRET,)) == [(1,)]

    database.run(scenario)
