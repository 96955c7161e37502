"""A new conversation is opened by its first changes, in the same step: see `Lease.prepare`."""

from __future__ import annotations

import asyncio

import pytest

from ferrule import CallContext, Reply, ToolConversation, tool
from ferrule.core.context import Principal
from ferrule.engines.fake import FakeEngine
from ferrule.errors import FencedError, LedgerError
from ferrule.run.lease import Lease
from ferrule.run.ledger.change import Release, SaveState
from ferrule.run.ledger.ledger import Ledger, StoredRequest
from ferrule.run.ledger.saved_state import StateUpdate
from ferrule.run.ledger.sql import SqlLedger
from ferrule.run.ledger.step import Step
from run.counted_turns import STEPS_OF_TURNS, allow, engine_of, look, pay, watch_steps
from run.ledger_databases import ANN, LEASE, Database
from run.watched_ledger import watch

EVE = Principal("eve", "acme")
REQUEST = StoredRequest("c", ANN.tenant, ANN.name, "chat", "b", "", 0.0, '{"names":["pay"]}')


def saved(*texts: str) -> SaveState:
    return SaveState(update=StateUpdate({"messages": len(texts)}, [{"text": text} for text in texts], 0), at=1.0)


async def begin(ledger: Ledger, owner: str = "one", who: Principal = ANN, request: StoredRequest | None = None) -> int:
    record, _ = await ledger.begin("c", who, owner, LEASE, [saved("go")], request, now=1.0)
    return record.epoch


def test_a_conversation_is_opened_with_its_first_changes_and_the_request_it_answers(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        assert await begin(ledger, request=REQUEST) == 1
        record, stored = await ledger.load("c"), await ledger.stored_request("c")
        assert record is not None
        assert stored is not None
        assert (record.state["messages"], stored.request, stored.begun_at) == ([{"text": "go"}], {"names": ["pay"]}, 1)
        assert [row.kind for row in await ledger.audit("c")] == ["opened", "saved"]
        assert await ledger.verify() is None
        # The owner goes on from there.
        assert await ledger.save("c", 1, StateUpdate({"messages": 2}, [{"text": "on"}], 1), now=2) == 2

    database.run(scenario)


def test_a_conversation_that_exists_is_not_begun_and_nothing_is_left_of_the_attempt(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        await ledger.open("c", ANN, "two", LEASE, now=0)
        before = await ledger.audit("c")
        with pytest.raises(FencedError):
            await begin(ledger, request=REQUEST)
        with pytest.raises(LedgerError) as taken:
            await begin(ledger, who=EVE)
        assert taken.value.code == "conversation_taken"
        assert await ledger.audit("c") == before
        assert await ledger.stored_request("c") is None

    database.run(scenario)


def test_begun_again_because_the_answer_was_lost_a_conversation_has_its_changes_once(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        assert [await begin(ledger, request=REQUEST), await begin(ledger, request=REQUEST)] == [1, 1]
        record = await ledger.load("c")
        assert record is not None
        assert record.state["messages"] == [{"text": "go"}]
        # Taken over, it belongs to the new owner, and not to the one that began it.
        await ledger.release("c", 1, now=2)
        await ledger.open("c", ANN, "two", LEASE, now=3)
        with pytest.raises(FencedError):
            await begin(ledger)
        assert await ledger.verify() is None

    database.run(scenario)


@pytest.mark.parametrize("calls", STEPS_OF_TURNS)
def test_a_stored_request_takes_no_step_of_its_own(database: Database, calls: str) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        written, engine = watch_steps(ledger), engine_of(calls)
        lease = Lease.prepare(ledger, "c", ANN, LEASE, REQUEST)
        options = {"context": CallContext(principal=ANN), "decide": allow}
        talk = ToolConversation.with_lease(lease, engine, [look, pay], is_one_turn=True, **options)
        assert not talk.is_recorded
        assert (await talk.send_message("go")).text == "Done."
        await talk.close()
        assert talk.is_recorded
        assert len(written) <= STEPS_OF_TURNS[calls], written
        assert written[0].startswith("opened")
        assert written[-1].endswith("released")
        assert await ledger.verify() is None
        again = await ToolConversation.open(ledger, "c", engine, [look, pay], context=CallContext(principal=ANN))
        assert again.messages == talk.messages

    database.run(scenario)


def test_a_conversation_that_was_never_written_leaves_nothing(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        lease = Lease.prepare(ledger, "c", ANN, LEASE, REQUEST)
        async with lease:
            pass
        await lease.release()
        assert await ledger.load("c") is None

    database.run(scenario)


def test_a_conversation_is_released_although_its_turn_ends_while_it_is_opened(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        lease = Lease.prepare(ledger, "c", ANN, LEASE, REQUEST)
        async with lease:
            opening = asyncio.ensure_future(lease.apply([saved("go")]))
            await asyncio.sleep(0)
        await lease.release()
        await opening
        assert await ledger.open("c", ANN, "two", LEASE, now=lease.clock())

    database.run(scenario)


def test_a_conversation_that_its_first_step_opens_and_releases_is_held_by_nobody(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        lease = Lease.prepare(ledger, "c", ANN, LEASE, REQUEST)
        transactions: list[str] = []
        watch(ledger, lambda one: transactions.append(one.transaction) if isinstance(one.wanted, Step) else None)
        async with lease:
            await lease.apply([saved("go"), Release(at=lease.clock())])
        assert transactions == ["begin"]
        assert await ledger.open("c", ANN, "two", LEASE, now=lease.clock())

    database.run(scenario)


def test_a_turn_whose_opening_cannot_be_written_asks_no_model(database: Database) -> None:
    @tool
    async def look() -> str:
        return "seen"

    async def scenario(ledger: SqlLedger) -> None:
        engine = FakeEngine([Reply.of("Done.")])
        lease = Lease.prepare(ledger, "c", ANN, LEASE, REQUEST)
        talk = ToolConversation.with_lease(lease, engine, [look], is_one_turn=True, context=CallContext(principal=ANN))
        await ledger.close()
        with pytest.raises(LedgerError):
            await talk.send_message("go")
        assert not engine.requests

    database.run(scenario)
