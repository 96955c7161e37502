"""What is looked up in a ledger by tenant, whichever database it is in."""

from __future__ import annotations

import asyncio

import pytest

from ferrule.core.context import Principal
from ferrule.errors import LedgerError
from ferrule.run.ledger.ledger import ApprovalState
from ferrule.run.ledger.search import Search
from ferrule.run.ledger.sql import SqlLedger
from run.ledger_databases import ANN, LEASE, Home, claim, proposed

BOB, EVE = Principal("bob", "acme"), Principal("eve", "evil")


async def _ids(ledger: SqlLedger, tenant: str = "acme", **search: str | int) -> list[str]:
    return [line.id for line in await ledger.conversations_of(tenant, Search(**search))]  # pyright: ignore[reportArgumentType]


async def _opened(ledger: SqlLedger, *ids: str, who: Principal = ANN, now: float = 0.0, state: object = None) -> None:
    for id in ids:
        record = await ledger.open(id, who, "one", LEASE, now=now)
        if state is not None:
            await ledger.save(id, record.epoch, state, now=now + 1)


def test_conversations_are_listed_newest_first_and_of_one_tenant_only(home: Home) -> None:
    async def story(ledger: SqlLedger) -> None:
        await _opened(ledger, "a", now=1)
        await _opened(ledger, "b", who=BOB, now=3)
        await _opened(ledger, "c", who=EVE, now=4)
        await _opened(ledger, "d", now=2, state={"messages": []})
        assert await _ids(ledger) == ["b", "d", "a"]
        assert await _ids(ledger, principal="ann") == ["d", "a"]
        assert await _ids(ledger, "evil") == ["c"]
        assert await _ids(ledger, "nobody") == []
        line = (await ledger.conversations_of("acme", Search(principal="ann")))[0]
        assert (line.opened_at, line.changed_at, line.version, line.principal) == (2.0, 3.0, 1, "ann")

    home.run(story)


@pytest.mark.parametrize("most", [1, 2, 3, 7])
def test_pages_of_any_size_give_every_conversation_once(home: Home, most: int) -> None:
    async def story(ledger: SqlLedger) -> None:
        # Some of one moment, so that the id decides.
        for number in range(7):
            await _opened(ledger, f"c{number}", now=number // 3)
        found: list[str] = []
        while page := await _ids(ledger, most=most, behind=found[-1] if found else ""):
            assert len(page) <= most
            found += page
        assert found == ["c6", "c5", "c4", "c3", "c2", "c1", "c0"]

    home.run(story)


def test_nobody_goes_on_behind_another_tenants_conversation(home: Home) -> None:
    async def story(ledger: SqlLedger) -> None:
        await _opened(ledger, "a")
        await _opened(ledger, "e", who=EVE)
        for behind in ("e", "never"):
            with pytest.raises(LedgerError) as refusal:
                await _ids(ledger, behind=behind)
            assert refusal.value.code == "bad_cursor"

    home.run(story)


def test_a_search_finds_texts_as_they_were_said_and_tools_that_were_called(home: Home) -> None:
    async def story(ledger: SqlLedger) -> None:
        await _opened(ledger, "a", state={"text": 'He said "100%_sure!"\nLater: Zürich'})
        await _opened(ledger, "b", state={"text": "100 percent sure"})
        await proposed(ledger, what=claim("p"))
        for text in ('said "100', "100%_sure!", "\nlater", "zürich"):
            assert await _ids(ledger, text=text) == ["a"], text
        assert await _ids(ledger, text="SURE") == ["b", "a"]
        assert await _ids(ledger, text="100_") == []
        assert await _ids(ledger, text="' OR 1=1 --") == []
        assert await _ids(ledger, tool="pay") == ["p"]
        assert await _ids(ledger, tool="pa%") == []

    home.run(story)


def test_approvals_are_listed_by_tenant_by_state_and_by_conversation(home: Home) -> None:
    async def story(ledger: SqlLedger) -> None:
        await proposed(ledger, True)
        await proposed(ledger, True, claim(call_id="l"))
        first = await ledger.request_approval("c", "k", 1, expires=5, now=1)
        second = await ledger.request_approval("c", "l", 1, expires=5, now=2)
        given = await ledger.approve(first.id, "bob", now=3)
        assert await ledger.approvals_of("acme") == (given, second)
        assert await ledger.approvals_of("acme", ApprovalState.PENDING) == (second,)
        assert await ledger.approvals_of("evil") == ()
        assert await ledger.approvals_in("c") == (given, second)
        assert await ledger.approvals_in("other") == ()

    home.run(story)


def test_the_last_leave_before_a_moment_is_of_that_tenant_and_tool_and_was_given(home: Home) -> None:
    async def story(ledger: SqlLedger) -> None:
        for call_id in "klmn":
            await proposed(ledger, True, claim(call_id=call_id))
        asked = [await ledger.request_approval("c", call_id, 1, expires=90, now=1) for call_id in "klmn"]
        first = await ledger.approve(asked[0].id, "bob", now=10)
        await ledger.deny(asked[1].id, "bob", "no", now=20)
        last = await ledger.approve(asked[2].id, "bob", now=30)
        moments = [("pay", 10.0), ("pay", 11), ("pay", 25.0), ("pay", 31.0), ("pay", float("inf")), ("other", 99.0)]
        assert await ledger.approved_before("acme", moments) == (None, first, first, last, last, None)
        assert await ledger.approved_before("evil", moments[:2]) == (None, None)
        assert await ledger.approved_before("acme", ()) == ()
        # One that ran out unused was given all the same.
        again = await ledger.request_approval("c", "m", 1, expires=200, now=100)
        (ran_out,) = await ledger.approved_before("acme", [("pay", 99.0)])
        assert ran_out is not None
        assert (ran_out.id, ran_out.state) == (last.id, ApprovalState.REPLACED)
        assert (await ledger.approval(again.id)) == again

    home.run(story)


@pytest.mark.parametrize("id", ["\ud800", "a\x00b"])
def test_what_no_row_can_hold_is_refused_or_not_found_and_never_more(home: Home, id: str) -> None:
    async def story(ledger: SqlLedger) -> None:
        asked = (ledger.approval(id), ledger.load(id), ledger.call("c", id), ledger.approvals_of(id))
        for told in await asyncio.gather(*asked, return_exceptions=True):
            assert not told or (isinstance(told, LedgerError) and told.code == "bad_name")
        await _opened(ledger, "a")
        assert await _ids(ledger) == ["a"]

    home.run(story)
