"""Queries by tenant, in each database."""

from __future__ import annotations

import asyncio

import pytest

from ferrule.core.context import Principal
from ferrule.errors import LedgerError
from ferrule.run.ledger.ledger import ApprovalState
from ferrule.run.ledger.search import ConversationQuery
from ferrule.run.ledger.sql import SqlLedger
from run.ledger_databases import ANN, LEASE, Database, claim, propose_call

BOB, EVE = Principal("bob", "acme"), Principal("eve", "evil")


async def _ids(ledger: SqlLedger, tenant: str = "acme", **search: str | int) -> list[str]:
    return [line.id for line in await ledger.conversations_of(tenant, ConversationQuery(**search))]  # pyright: ignore[reportArgumentType]


async def _open(ledger: SqlLedger, *ids: str, who: Principal = ANN, now: float = 0.0, state: object = None) -> None:
    for id in ids:
        record = await ledger.open(id, who, "one", LEASE, now=now)
        if state is not None:
            await ledger.save(id, record.epoch, state, now=now + 1)


def test_conversations_are_listed_newest_first_and_of_one_tenant_only(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        await _open(ledger, "a", now=1)
        await _open(ledger, "b", who=BOB, now=3)
        await _open(ledger, "c", who=EVE, now=4)
        await _open(ledger, "d", now=2, state={"messages": []})
        assert await _ids(ledger) == ["b", "d", "a"]
        assert await _ids(ledger, principal="ann") == ["d", "a"]
        assert await _ids(ledger, "evil") == ["c"]
        assert await _ids(ledger, "nobody") == []
        line = (await ledger.conversations_of("acme", ConversationQuery(principal="ann")))[0]
        assert (line.opened_at, line.changed_at, line.version, line.principal) == (2.0, 3.0, 1, "ann")

    database.run(scenario)


@pytest.mark.parametrize("limit", [1, 2, 3, 7])
def test_pages_of_any_size_give_every_conversation_once(database: Database, limit: int) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        # Some have the same time, so that the id decides.
        for number in range(7):
            await _open(ledger, f"c{number}", now=number // 3)
        ids: list[str] = []
        while page := await _ids(ledger, limit=limit, after=ids[-1] if ids else ""):
            assert len(page) <= limit
            ids += page
        assert ids == ["c6", "c5", "c4", "c3", "c2", "c1", "c0"]

    database.run(scenario)


def test_a_cursor_of_another_tenant_is_refused(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        await _open(ledger, "a")
        await _open(ledger, "e", who=EVE)
        for cursor in ("e", "never"):
            with pytest.raises(LedgerError) as refusal:
                await _ids(ledger, after=cursor)
            assert refusal.value.code == "bad_cursor"

    database.run(scenario)


def test_a_search_finds_texts_as_they_were_said_and_tools_that_were_called(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        await _open(ledger, "a", state={"text": 'Ann said "100%_sure!"\nLater: Zürich'})
        await _open(ledger, "b", state={"text": "100 percent sure"})
        await propose_call(ledger, what=claim("p"))
        for text in ('said "100', "100%_sure!", "\nlater", "zürich"):
            assert await _ids(ledger, text=text) == ["a"], text
        assert await _ids(ledger, text="SURE") == ["b", "a"]
        assert await _ids(ledger, text="100_") == []
        assert await _ids(ledger, text="' OR 1=1 --") == []
        assert await _ids(ledger, tool="pay") == ["p"]
        assert await _ids(ledger, tool="pa%") == []

    database.run(scenario)


def test_approvals_are_listed_by_tenant_by_state_and_by_conversation(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        await propose_call(ledger, True)
        await propose_call(ledger, True, claim(call_id="l"))
        first = await ledger.request_approval("c", "k", 1, expires=5, now=1)
        second = await ledger.request_approval("c", "l", 1, expires=5, now=2)
        approved = await ledger.approve(first.id, "bob", now=3)
        assert await ledger.approvals_of("acme") == (approved, second)
        assert await ledger.approvals_of("acme", ApprovalState.PENDING) == (second,)
        assert await ledger.approvals_of("evil") == ()
        assert await ledger.approvals_in("c") == (approved, second)
        assert await ledger.approvals_in("other") == ()

    database.run(scenario)


def test_the_last_approval_before_a_time_is_of_that_tenant_and_tool_and_was_given(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        for call_id in "klmn":
            await propose_call(ledger, True, claim(call_id=call_id))
        requests = [await ledger.request_approval("c", call_id, 1, expires=90, now=1) for call_id in "klmn"]
        first = await ledger.approve(requests[0].id, "bob", now=10)
        await ledger.deny(requests[1].id, "bob", "no", now=20)
        last = await ledger.approve(requests[2].id, "bob", now=30)
        tool_times = [("pay", 10.0), ("pay", 11), ("pay", 25.0), ("pay", 31.0), ("pay", float("inf")), ("other", 99.0)]
        assert await ledger.earlier_approvals("acme", tool_times) == (None, first, first, last, last, None)
        assert await ledger.earlier_approvals("evil", tool_times[:2]) == (None, None)
        assert await ledger.earlier_approvals("acme", ()) == ()
        # One that expired unused was given nevertheless.
        again = await ledger.request_approval("c", "m", 1, expires=200, now=100)
        (expired,) = await ledger.earlier_approvals("acme", [("pay", 99.0)])
        assert expired is not None
        assert (expired.id, expired.state) == (last.id, ApprovalState.REPLACED)
        assert (await ledger.approval(again.id)) == again

    database.run(scenario)


@pytest.mark.parametrize("id", ["\ud800", "a\x00b"])
def test_an_id_that_cannot_be_stored_is_refused_or_not_found(database: Database, id: str) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        lookups = (ledger.approval(id), ledger.load(id), ledger.call("c", id), ledger.approvals_of(id))
        for result in await asyncio.gather(*lookups, return_exceptions=True):
            assert not result or (isinstance(result, LedgerError) and result.code == "bad_name")
        await _open(ledger, "a")
        assert await _ids(ledger) == ["a"]

    database.run(scenario)
