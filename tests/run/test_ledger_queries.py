"""Queries by tenant, in each database."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from ferrule.core.context import Principal
from ferrule.errors import LedgerError
from ferrule.run.ledger.ledger import ApprovalState
from ferrule.run.ledger.search import ApprovalQuery, ConversationQuery
from ferrule.run.ledger.sql import SqlLedger
from ferrule.run.ledger.trace import TraceQuery
from run.ledger_databases import ANN, LEASE, Database, claim, propose_call

BOB, EVE = Principal("bob", "acme"), Principal("eve", "evil")


COLUMNS = {"message": "conversation", "audit": "conversation", "conversation": "id"}


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


def saying(*texts: str) -> dict[str, object]:
    """The state of a conversation with these messages."""
    return {"messages": [{"role": "user", "content": text} for text in texts]}


def test_a_search_finds_words_as_they_were_said_and_tools_that_were_called(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        await _open(ledger, "a", state=saying('Ann said "100%_sure!"\nLater: Zürich', "C:\\new\\table"))
        await _open(ledger, "b", state=saying("100 percent sure"))
        await propose_call(ledger, what=claim("p"))
        for text in ('said "100', "100%_sure! ann", "\nlater", "zürich", "ZÜRICH later", "C:\\new", "table new"):
            assert await _ids(ledger, text=text) == ["a"], text
        assert await _ids(ledger, text="SURE") == ["b", "a"]
        # Parts of words, and words of two messages.
        for text in ("percen", "ercent", "ann table", "' OR 1=1 --", "%", "!!!", "\\", '"'):
            assert await _ids(ledger, text=text) == [], text
        assert await _ids(ledger, tool="pay") == ["p"]
        assert await _ids(ledger, tool="pa%") == []

    database.run(scenario)


def test_text_without_spaces_between_words_is_found_by_any_part_of_it(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        await _open(ledger, "a", state=saying("今天天气很好。東京タワーに行きたい"))
        await _open(ledger, "b", state=saying("很好 means very good in Chinese", "สวัสดีครับ"))
        for text in ("天气", "天天气", "今天天气很好", "東京", "タワー", "天", "行きたい 今天"):
            assert await _ids(ledger, text=text) == ["a"], text
        assert await _ids(ledger, text="很好") == ["b", "a"]
        assert await _ids(ledger, text="very 很") == ["b"]
        assert await _ids(ledger, text="ครับ") == ["b"]
        for text in ("天很", "气天", "京東"):
            assert await _ids(ledger, text=text) == [], text

    database.run(scenario)


HOSTILE = (
    *("' & | ! <-> ( ) :* 'a", "a' OR 1=1; DROP TABLE ferrule_message; --", "NEAR(a b) AND NOT *", '"unbalanced'),
    *("{words} : ^a -b", "%_!%", "\x00", "a\x00b", "\ud800", "\\", "\\u0000", "\u202e\u200b\ufeff", "ß" * 10_000),
    *("x" * 10_000, "a " * 5_000, "a_" * 5_000, "天" * 10_000, "'" * 10_000, "\U0001f600" * 100, "é\u0301", "İ"),
)


@pytest.mark.parametrize("text", HOSTILE, ids=[str(number) for number in range(len(HOSTILE))])
def test_whatever_a_search_contains_is_taken_as_words(database: Database, text: str) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        await _open(ledger, "a", state=saying("unrelated"))
        assert await _ids(ledger, text=text) == []
        assert await ledger.traces_of("acme", TraceQuery(text=text)) == ()
        assert await _ids(ledger, text="unrelated") == ["a"]

    database.run(scenario)


def _hostile_messages() -> dict[str, object]:
    words = " ".join(f"w{number:x}" for number in range(60_000))
    unspaced = "".join(chr(0x4E00 + number * 7919 % 20_000) for number in range(40_000))
    return {
        "a word of 3 kB": "x" * 3_000,
        "a word of 3 kB, three bytes each": "ё" * 3_000,
        "very many words": words,
        "very many pairs": unspaced,
        "rare characters": "".join(chr(0x20000 + number) for number in range(30_000)),
        "10 MB": "ten megabytes " * 800_000,
        "10 MB of one word": "y" * 10_000_000,
        "underscores": "a_" * 100_000,
        "hyphens": "a-" * 100_000,
        "an address": "http://a.b/c?" + "d=e&" * 30_000,
        "tags": "<a>" * 50_000,
        "numbers": "1." * 50_000,
        "escapes": "\x00\x01\x1b\\u0000\\n\\\\" * 5_000,
        "punctuation": "".join(map(chr, range(1, 0x250))) * 50,
        "marks": "e\u0301\u202e\u200d" * 10_000,
    }


def test_a_message_can_be_stored_and_searched_whatever_it_contains(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        messages = _hostile_messages()
        for number, (what, text) in enumerate(messages.items()):
            await _open(ledger, f"c{number}", state=saying(f"begin{number} {text}"), now=number)
            assert await _ids(ledger, text=f"BEGIN{number}") == [f"c{number}"], what
        assert len(await _ids(ledger, limit=100)) == len(messages)

    database.run(scenario)


def test_a_search_is_in_the_conversations_of_one_tenant_and_principal(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        for number in range(4):
            await _open(ledger, f"a{number}", now=number, state=saying("harpsichord"))
            await _open(ledger, f"b{number}", now=number, who=BOB, state=saying("harpsichord"))
            await _open(ledger, f"e{number}", now=number, who=EVE, state=saying("harpsichord, and a secret"))
        assert await _ids(ledger, "evil", text="harpsichord") == ["e3", "e2", "e1", "e0"]
        assert await _ids(ledger, text="secret") == []
        assert await _ids(ledger, text="harpsichord", principal="ann") == ["a3", "a2", "a1", "a0"]
        assert await _ids(ledger, text="harpsichord", principal="eve") == []
        assert await _ids(ledger, "nobody", text="harpsichord") == []
        assert await _ids(ledger, text="harpsichord", limit=3, after="b2") == ["a2", "b1", "a1"]

    database.run(scenario)


def test_a_word_is_found_however_far_back_it_was_said(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first statement of a search looks only at the newest conversations; here at two, or at four."""
    monkeypatch.setattr("ferrule.run.ledger.queries.FIRST", 2)
    monkeypatch.setattr("ferrule.run.ledger.queries.RECENT", 4)

    async def scenario(ledger: SqlLedger) -> None:
        for number in range(12):
            text = "frequent" + (" rare" if number in (1, 5) else "")
            await _open(ledger, f"c{number:02}", now=number // 2, state=saying(text))
        every = [f"c{number:02}" for number in range(11, -1, -1)]
        for limit in (1, 2, 3, 5, 12, 20):
            for text, expected in (("frequent", every), ("rare", ["c05", "c01"]), ("rare frequent", ["c05", "c01"])):
                assert await _ids(ledger, text=text, limit=limit) == expected[:limit]
                ids: list[str] = []
                while page := await _ids(ledger, text=text, limit=limit, after=ids[-1] if ids else ""):
                    ids += page
                assert ids == expected

    database.run(scenario)


def test_what_was_replaced_or_deleted_is_no_longer_found(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        epoch = (await ledger.open("a", ANN, "one", LEASE, now=0)).epoch
        # Also if it was replaced before anybody searched.
        await ledger.save("a", epoch, saying("zeroth", "zeroth"), now=1)
        await ledger.save("a", epoch, saying("first", "second"), now=1)
        assert await _ids(ledger, text="zeroth") == []
        assert await _ids(ledger, text="second") == ["a"]
        await ledger.save("a", epoch, saying("third"), now=2)
        assert await _ids(ledger, text="first") == await _ids(ledger, text="second") == []
        assert await _ids(ledger, text="third") == ["a"]
        await ledger.save("a", epoch, None, now=3)
        assert await _ids(ledger, text="third") == []
        database.execute("DELETE FROM ferrule_message", ())
        await ledger.save("a", epoch, saying("fourth"), now=4)
        assert await _ids(ledger, text="third") == []
        assert await _ids(ledger, text="fourth") == ["a"]

    database.run(scenario)


def test_pages_have_no_row_twice_and_skip_none_while_rows_come_and_go(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        for number in range(20):
            await _open(ledger, f"stays{number:02}", now=number // 4, state=saying("word"))
            await _open(ledger, f"goes{number:02}", now=number // 4, state=saying("word"))
        for text in ("", "word"):
            ids: list[str] = []
            while page := await _ids(ledger, limit=3, text=text, after=ids[-1] if ids else ""):
                ids += page
                number = len(ids)
                await _open(ledger, f"new-{text}-{number}", now=number % 6, state=saying("word"))
                gone = f"goes{number % 20:02}"
                if gone != ids[-1]:
                    for table, column in (
                        ("message", "conversation"),
                        ("audit", "conversation"),
                        ("conversation", "id"),
                    ):
                        database.execute(f"DELETE FROM ferrule_{table} WHERE {column} = ?", (gone,))
            assert len(ids) == len(set(ids))
            assert {f"stays{number:02}" for number in range(20)} <= set(ids)

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


async def _pending(ledger: SqlLedger, number: int, now: float, tool: str = "pay") -> str:
    what = await propose_call(ledger, True, claim(call_id=f"k{number:03}", tool=tool))
    return (await ledger.request_approval("c", what.call_id, 1, expires=100, now=now)).id


@pytest.mark.parametrize("is_newest_first", [False, True])
def test_approvals_are_read_in_pages_also_while_they_change(database: Database, is_newest_first: bool) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        # Several have the same time, so that the id decides.
        ids = [await _pending(ledger, number, now=number // 4) for number in range(24)]
        seen: list[str] = []
        query = ApprovalQuery(limit=5, is_newest_first=is_newest_first, now=50)
        while page := await ledger.search_approvals("acme", replace(query, after=seen[-1] if seen else "")):
            assert len(page) <= 5
            seen += [one.id for one in page]
            # The one that the next page begins after is decided, and so is one of a later page.
            for id in (seen[-1], *[id for id in ids[:24] if id not in seen][-1:]):
                if (record := await ledger.approval(id)) and record.state is ApprovalState.PENDING:
                    await ledger.approve(id, "bob", now=50)
            ids.append(await _pending(ledger, len(ids) + 100, now=2))
        assert len(seen) == len(set(seen))
        assert set(ids[:24]) <= set(seen)
        for limit in (1, 7, 1000):
            every: list[str] = []
            while rows := await ledger.approvals(limit=limit, after=every[-1] if every else ""):
                every += [one.id for one in rows]
            assert sorted(every) == sorted(ids)
            assert [one.id for one in await ledger.approvals_of("acme", limit=limit)] == every[:limit]

    database.run(scenario)


def test_approvals_are_found_by_status_tool_principal_and_conversation(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        waits, expires, denied, used, approved = [await _pending(ledger, number, now=number) for number in range(5)]
        other = await _pending(ledger, 5, now=5, tool="post")
        await ledger.deny(denied, "bob", now=6)
        for id in (used, approved):
            await ledger.approve(id, "bob", now=6)
        assert await ledger.start(claim(call_id="k003"), 1, approval=used, now=7)
        database.execute("UPDATE ferrule_approval SET expires_at = 8 WHERE id IN (?, ?)", (expires, approved))

        async def found(**query: Any) -> list[str]:
            return [one.id for one in await ledger.search_approvals("acme", ApprovalQuery(now=20, **query))]

        assert await found() == [waits, expires, denied, used, approved, other]
        assert await found(status="pending") == [waits, other]
        assert await found(status="expired") == [expires, approved]
        assert await found(status="approved") == []
        assert await found(status="redeemed") == [used]
        assert await found(status="decided") == [denied, used, approved]
        assert await found(status="decided", is_newest_first=True, limit=2) == [approved, used]
        assert await found(tool="post") == [other]
        assert await found(tool="post", principal="ann", conversation="c", status="pending") == [other]
        assert await found(principal="bob") == await found(conversation="d") == []
        assert await ledger.search_approvals("evil", ApprovalQuery()) == ()
        for cursor in ("never", "' OR 1=1"):
            with pytest.raises(LedgerError) as refusal:
                await found(after=cursor)
            assert refusal.value.code == "bad_cursor"
        with pytest.raises(LedgerError) as refusal:
            await ledger.approvals_of("evil", after=waits)
        assert refusal.value.code == "bad_cursor"
        assert await ledger.count_approvals(ApprovalState.PENDING) == 3

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
