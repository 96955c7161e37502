"""The task of a call in the ledger: it is written at once, goes to the conversation's next owner, and ends once."""

from __future__ import annotations

import pytest

from ferrule.core.call import ToolCall
from ferrule.core.context import TaskRecord
from ferrule.core.outcome import Answered, Outcome, Unknown
from ferrule.core.tool import ToolDefinition
from ferrule.errors import FencedError
from ferrule.run.journal import CallEntry
from ferrule.run.ledger.address import open_ledger
from ferrule.run.ledger.ledger import CallState
from ferrule.run.ledger.sql import SqlLedger
from ferrule.run.ledger_journal import LedgerJournal
from run.ledger_databases import ANN, LEASE, Database

PLACE = "0.0"


def entry(*, side_effects: bool) -> CallEntry:
    tool = ToolDefinition("research", side_effects=side_effects)
    return CallEntry(PLACE, ToolCall.of("research", {}, id=PLACE), tool, needs_approval=False)


class KilledError(Exception):
    """Stands for the end of the process: nothing is written after it."""


async def begin(ledger: SqlLedger, database: Database, *, side_effects: bool = True) -> LedgerJournal:
    """Begin a call that goes on as a task, in a process that is killed then."""
    await ledger.open("c", ANN, "one", LEASE, now=0)
    journal = LedgerJournal(ledger, "c", ANN, 1, calls={}, is_begun=True, clock=lambda: 1.0)

    async def effect(task: TaskRecord) -> Outcome:
        assert not task.handle
        await task.keep("its handle")
        async with await open_ledger(database.where) as other:
            call = await other.call("c", PLACE)
        assert call is not None
        assert (call.state, call.task, call.outcome) == (CallState.STARTED, "its handle", None)
        raise KilledError

    with pytest.raises(KilledError):
        await journal.run(entry(side_effects=side_effects), effect)
    return journal


async def take_over(ledger: SqlLedger, owner: str, now: float) -> LedgerJournal:
    record = await ledger.take_over("c", owner, LEASE, now=now)
    calls = {call.id: call for call in await ledger.calls("c")}
    return LedgerJournal(ledger, "c", ANN, record.epoch, calls=calls, is_begun=True, clock=lambda: now)


@pytest.mark.parametrize("side_effects", [True, False])
def test_every_later_owner_resumes_the_task_and_one_ends_it(database: Database, side_effects: bool) -> None:
    resumed: list[str] = []

    async def scenario(ledger: SqlLedger) -> None:
        await begin(ledger, database, side_effects=side_effects)

        async def killed(task: TaskRecord) -> Outcome:
            resumed.append(task.handle)
            raise KilledError

        async def ends(task: TaskRecord) -> Outcome:
            resumed.append(task.handle)
            return Answered("found")

        second = await take_over(ledger, "two", 20)
        assert await second.find_outcome(PLACE) is None
        with pytest.raises(KilledError):
            await second.run(entry(side_effects=side_effects), killed)
        third = await take_over(ledger, "three", 40)
        assert await third.run(entry(side_effects=side_effects), ends) == Answered("found")
        assert resumed == ["its handle"] * 2
        assert await third.find_outcome(PLACE) == Answered("found")
        assert [(one.state, one.task) for one in await ledger.calls("c")] == [(CallState.DONE, "")]
        assert await ledger.verify() is None
        kinds = [row.kind for row in await ledger.audit("c") if row.call_id == PLACE]
        assert kinds == ["proposed", "started", "task", "task_resumed", "task_resumed", "done"]

    database.run(scenario)


def test_an_owner_that_was_replaced_can_write_no_task(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        first = await begin(ledger, database)
        await take_over(ledger, "two", 20)

        async def late(task: TaskRecord) -> Outcome:
            await task.keep("another handle")
            raise AssertionError("it wrote")

        with pytest.raises(FencedError):
            await first.run(entry(side_effects=True), late)
        (call,) = await ledger.calls("c")
        assert call.task == "its handle"

    database.run(scenario)


def test_a_task_whose_tool_is_gone_has_an_unknown_outcome(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        await begin(ledger, database)
        second = await take_over(ledger, "two", 20)
        outcome = await second.refuse(PLACE, "it is offered no longer")
        assert isinstance(outcome, Unknown)
        (call,) = await ledger.calls("c")
        assert (call.state, call.outcome) == (CallState.UNKNOWN, outcome)

    database.run(scenario)
