"""An owner that sleeps between two statements of a transition, and what others do to its conversation meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from ferrule.core.outcome import Answered
from ferrule.errors import FencedError
from ferrule.run.ledger.address import open_ledger
from ferrule.run.ledger.lease_tables import WHILE_ALIVE
from ferrule.run.ledger.ledger import ApprovalState, ResponseRecord, ResponseStatus
from ferrule.run.ledger.sql import SqlLedger
from ferrule.run.ledger.step import Step
from ferrule.run.ledger.transaction import QueryResult, Statement, Transaction
from run.ledger_databases import ANN, LEASE, Database, claim, propose_call
from waiting import until

LATER = 2 * LEASE
MUCH_LATER = 2 * LATER
STEP = "step"


def sleep_before(ledger: SqlLedger, point: str, meanwhile: Callable[[], Awaitable[object]]) -> list[str]:
    """Let a ledger sleep once before its next statement of this name, or before a step. Returns what it slept at."""
    transact = ledger._transact
    slept: list[str] = []

    def alone(wanted: Statement | Step) -> Transaction[QueryResult]:
        return (yield wanted)

    async def transact_asleep(transaction: Transaction[Any], *, is_atomic: bool = False) -> Any:
        if is_atomic:
            return await transact(transaction, is_atomic=True)
        try:
            wanted = next(transaction)
            while True:
                name = wanted.name if isinstance(wanted, Statement) else STEP
                if name == point and not slept:
                    slept.append(name)
                    await meanwhile()
                wanted = transaction.send(await transact(alone(wanted)))
        except StopIteration as done:
            return done.value

    ledger._transact = transact_asleep  # type: ignore[method-assign]
    return slept


@pytest.mark.parametrize("point", ["messages", "state"])
@pytest.mark.parametrize("way", ["open", "take_over"])
def test_who_sleeps_while_taking_a_conversation_over_does_not_wake_as_its_next_owner(
    single_database: Database, way: str, point: str
) -> None:
    """The second owner sleeps after its step and before it has read the state. The third one saves another state."""

    async def scenario(ledger: SqlLedger) -> None:
        await ledger.open("c", ANN, "one", LEASE, now=0)
        await ledger.save("c", 1, {"messages": ["a"]}, now=1)
        async with await open_ledger(single_database.where) as other:

            async def take_and_save() -> None:
                taken = await other.take_over("c", "three", LEASE, now=MUCH_LATER)
                assert taken.epoch == 3
                await other.propose(claim(), 3, side_effects=True, needs_approval=False, now=MUCH_LATER)
                await other.save("c", 3, {"messages": ["a", "b"]}, now=MUCH_LATER)

            slept = sleep_before(ledger, point, take_and_save)
            openings = {
                "open": lambda: ledger.open("c", ANN, "two", LEASE, now=LATER),
                "take_over": lambda: ledger.take_over("c", "two", LEASE, now=LATER),
            }
            with pytest.raises(FencedError):
                await openings[way]()
            assert slept
            with pytest.raises(FencedError):
                await ledger.start(claim(), 2, now=LATER)
            assert await other.start(claim(), 3, now=MUCH_LATER)
            assert await other.verify() is None

    single_database.run(scenario)


@pytest.mark.parametrize("way", ["keep", "renew"])
@pytest.mark.parametrize("point", ["approval", STEP])
def test_a_decision_that_sleeps_takes_no_lease_from_the_owner(single_database: Database, way: str, point: str) -> None:
    """The owner keeps or renews its lease between the reading and the writing of the decision."""

    async def scenario(ledger: SqlLedger) -> None:
        what = await propose_call(ledger, True)
        approval = await ledger.request_approval("c", "k", 1, expires=1e9, now=0)
        async with await open_ledger(str(single_database.where)) as decider:

            async def hold() -> None:
                if way == "keep":
                    await ledger.keep("c", 1, MUCH_LATER, lambda: 1.0)
                else:
                    await ledger.renew("c", 1, MUCH_LATER, now=1)

            slept = sleep_before(decider, point, hold)
            decided = await decider.approve(approval.id, "bob", now=1)
            assert decided.state is ApprovalState.APPROVED
            assert slept
            record = await decider.load("c")
            assert record is not None
            assert record.lease_until == (WHILE_ALIVE if way == "keep" else MUCH_LATER + 1)
            with pytest.raises(FencedError):
                await decider.take_over("c", "two", LEASE, now=LATER)
        assert await ledger.start(what, 1, approval=approval.id, now=LATER)
        assert await ledger.verify() is None

    single_database.run(scenario)


def test_a_lease_that_is_renewed_while_a_step_is_on_its_way_stays_renewed(
    single_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        await ledger.open("c", ANN, "one", LEASE, now=0)
        one_at_a_time = ledger._held.one_at_a_time
        asked: list[str] = []
        renewals: list[asyncio.Task[None]] = []

        def ask(conversation: str) -> asyncio.Lock:
            asked.append(conversation)
            return one_at_a_time(conversation)

        async def renew() -> None:
            asked.clear()
            renewals.append(asyncio.ensure_future(ledger.renew("c", 1, MUCH_LATER, now=1)))
            await until(lambda: bool(asked) or renewals[0].done())

        monkeypatch.setattr(ledger._held, "one_at_a_time", ask)
        slept = sleep_before(ledger, STEP, renew)
        await ledger.save("c", 1, {}, now=1)
        assert slept
        await renewals[0]
        record = await ledger.load("c")
        assert record is not None
        assert record.lease_until == MUCH_LATER + 1

    single_database.run(scenario)


def response_in(conversation: str) -> ResponseRecord:
    whose = (f"r-{conversation}", conversation, ANN.tenant, ANN.name)
    return ResponseRecord(*whose, ResponseStatus.IN_PROGRESS, "m", 1.0, 0, False, "{}")


WRITES: dict[str, Callable[[SqlLedger, str], Awaitable[object]]] = {
    "save": lambda ledger, name: ledger.save(name, 1, {"messages": ["x"]}, now=2),
    "keep": lambda ledger, name: ledger.keep(name, 1, LEASE, lambda: 2.0),
    "release": lambda ledger, name: ledger.release(name, 1, now=2),
    "propose": lambda ledger, name: ledger.propose(
        claim(name, "other"), 1, side_effects=True, needs_approval=True, now=2
    ),
    "start": lambda ledger, name: ledger.start(claim(name, "ready"), 1, now=2),
    "finish": lambda ledger, name: ledger.finish(name, "k", 1, Answered("paid"), now=2),
    "refuse": lambda ledger, name: ledger.refuse(name, "ready", 1, "no", now=2),
    "add_response": lambda ledger, name: ledger.add_response(
        replace(response_in(name), id=f"second-{name}"), 1, ("0",), now=2
    ),
    "events": lambda ledger, name: ledger.append_events(f"r-{name}", 1, ("1",), first=1, now=2),
    "end of a response": lambda ledger, name: ledger.append_events(
        f"r-{name}", 1, ("1",), first=1, state={"messages": ["x"]}, status=ResponseStatus.COMPLETED, now=2
    ),
}


@pytest.mark.parametrize("name", WRITES)
def test_an_owner_that_sleeps_before_a_write_while_it_is_replaced_writes_nothing(
    single_database: Database, name: str
) -> None:
    write = WRITES[name]
    tables = ("conversation", "call", "message", "response", "event", "audit")

    def rows() -> list[list[tuple[Any, ...]]]:
        return [sorted(single_database.execute(f"SELECT * FROM ferrule_{table}", ()), key=repr) for table in tables]

    async def scenario(ledger: SqlLedger) -> None:
        await ledger.open("c", ANN, "one", LEASE, now=0)
        for call_id in ("k", "ready"):
            await ledger.propose(claim(call_id=call_id), 1, side_effects=True, needs_approval=False, now=0)
        await ledger.start(claim(), 1, now=1)
        await ledger.add_response(response_in("c"), 1, ("0",), now=1)
        taken: list[list[list[tuple[Any, ...]]]] = []
        async with await open_ledger(single_database.where) as other:

            async def take_over() -> None:
                await other.take_over("c", "two", LEASE, now=LATER)
                taken.append(rows())

            slept = sleep_before(ledger, STEP, take_over)
            for _ in range(2):
                with pytest.raises(FencedError):
                    await write(ledger, "c")
            assert slept
            assert rows() == taken[0]
            assert await other.verify() is None

    single_database.run(scenario)
