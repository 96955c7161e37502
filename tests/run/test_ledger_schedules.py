"""Two owners, a person and their clocks in any order: the invariants hold whatever happens."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ferrule.core.outcome import Answered
from ferrule.errors import FencedError, LedgerError
from ferrule.run.ledger.address import open_ledger
from ferrule.run.ledger.ledger import CALL_TRANSITIONS, CallState, Ledger
from run.ledger_databases import ANN, LEASE, Database, claim, fresh_name

CALLS = {"plain": False, "asked": True}
OWNERS = ("one", "two")
BY_OWNER = ("take_over", "renew", "release", "save", "propose", "start", "finish", "refuse", "request", "unknown")
BY_PERSON = ("approve", "edit", "deny")

Move = tuple[str, str, str, float]
"""What, which owner, which call, and how much later than the move before."""
later = st.sampled_from([0.0, 0.0, 1.0, 4.0, LEASE])
moves: st.SearchStrategy[Move] = st.tuples(
    # Starts and takeovers are the point of this test, so they are more frequent.
    st.sampled_from([*BY_OWNER, *BY_PERSON, "start", "start", "take_over", "propose", "request", "approve"]),
    st.sampled_from(OWNERS),
    st.sampled_from(sorted(CALLS)),
    later,
)
schedules = st.lists(moves, min_size=5, max_size=25)
many_at_once = st.lists(st.lists(moves, min_size=1, max_size=4), min_size=3, max_size=8)
a_database_lives_longer = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=25
)


@dataclass(slots=True)
class Table:
    """The participants. Each owner uses the epoch that it got last."""

    ledgers: Mapping[str, Ledger]
    name: str = field(default_factory=fresh_name)
    now: float = 0.0
    epochs: dict[str, int] = field(default_factory=lambda: {"one": 1, "two": 0})
    started: Counter[str] = field(default_factory=Counter[str])

    async def play(self, move: Move) -> LedgerError | None:
        what, owner, call, wait = move
        self.now += wait
        deed = getattr(self, f"_{what}")
        try:
            await deed(owner, call)
        except LedgerError as refusal:
            return refusal
        return None

    async def snapshot(self) -> list[Any]:
        ledger = self.ledgers["one"]
        lookups: list[Awaitable[Any]] = [ledger.load(self.name), ledger.calls(self.name), ledger.audit(self.name)]
        approvals = [one for one in await ledger.approvals() if one.conversation == self.name]
        return [approvals, *[await one for one in lookups]]

    async def _take_over(self, owner: str, call: str) -> None:
        self.epochs[owner] = (await self.ledgers[owner].take_over(self.name, owner, LEASE, now=self.now)).epoch

    async def _renew(self, owner: str, call: str) -> None:
        await self.ledgers[owner].renew(self.name, self.epochs[owner], LEASE, now=self.now)

    async def _release(self, owner: str, call: str) -> None:
        await self.ledgers[owner].release(self.name, self.epochs[owner], now=self.now)

    async def _save(self, owner: str, call: str) -> None:
        await self.ledgers[owner].save(self.name, self.epochs[owner], {"by": owner}, now=self.now)

    async def _propose(self, owner: str, call: str) -> None:
        what = claim(self.name, call)
        needs_approval = CALLS[call]
        await self.ledgers[owner].propose(
            what, self.epochs[owner], side_effects=True, needs_approval=needs_approval, now=self.now
        )

    async def _start(self, owner: str, call: str) -> None:
        ledger, epoch = self.ledgers[owner], self.epochs[owner]
        approval = [one for one in await ledger.approvals() if (one.conversation, one.call_id) == (self.name, call)]
        what = claim(self.name, call)
        if approval:
            amount = {"amount": 1} if approval[-1].arguments == b'{"amount":1}' else {"amount": 3}
            what = claim(self.name, call, amount)
        won = await ledger.start(what, epoch, approval=approval[-1].id if approval else "", now=self.now)
        self.started[call] += won

    async def _finish(self, owner: str, call: str) -> None:
        await self.ledgers[owner].finish(self.name, call, self.epochs[owner], Answered("paid"), now=self.now)

    async def _refuse(self, owner: str, call: str) -> None:
        await self.ledgers[owner].refuse(self.name, call, self.epochs[owner], "no", now=self.now)

    async def _request(self, owner: str, call: str) -> None:
        await self.ledgers[owner].request_approval(
            self.name, call, self.epochs[owner], expires=self.now + 5, now=self.now
        )

    async def _unknown(self, owner: str, call: str) -> None:
        await self.ledgers[owner].mark_unknown(self.name, self.epochs[owner], now=self.now)

    async def _approve(self, owner: str, call: str) -> None:
        await self._decide(lambda ledger, approval: ledger.approve(approval, "bob", now=self.now))

    async def _edit(self, owner: str, call: str) -> None:
        await self._decide(lambda ledger, approval: ledger.approve(approval, "bob", b'{"amount":1}', now=self.now))

    async def _deny(self, owner: str, call: str) -> None:
        await self._decide(lambda ledger, approval: ledger.deny(approval, "bob", now=self.now))

    async def _decide(self, decide: Callable[[Ledger, str], Awaitable[object]]) -> None:
        ledger = self.ledgers["two"]
        for one in await ledger.approvals():
            if one.conversation == self.name:
                await decide(ledger, one.id)


@asynccontextmanager
async def open_table(database: Database) -> AsyncIterator[Table]:
    async with AsyncExitStack() as stack:
        table = Table({owner: await stack.enter_async_context(await open_ledger(database.where)) for owner in OWNERS})
        await table.ledgers["one"].open(table.name, ANN, "one", LEASE, now=0)
        for what, call in (("propose", "plain"), ("propose", "asked"), ("request", "asked")):
            assert await table.play((what, "one", call, 0.0)) is None
        yield table
        await check_the_end(table)


async def check_the_end(table: Table) -> None:
    ledger = table.ledgers["one"]
    rows = await ledger.audit(table.name)
    assert await ledger.verify(table.name) is None
    assert all(count <= 1 for count in table.started.values())
    epochs = [row.epoch for row in rows]
    assert epochs == sorted(epochs)
    assert [row.epoch for row in rows if row.kind == "taken_over"] == list(range(2, max(epochs) + 1))
    for call in await ledger.calls(table.name):
        states = [CallState(row.kind) for row in rows if row.call_id == call.id]
        assert states[0] is CallState.PROPOSED
        assert all(after in CALL_TRANSITIONS[before] for before, after in pairwise(states))
        assert states[-1] is call.state
        assert states.count(CallState.STARTED) == table.started[call.id]


@a_database_lives_longer
@given(schedule=schedules)
def test_a_refused_move_changes_nothing_and_a_fenced_owner_is_always_refused(
    database: Database, schedule: list[Move]
) -> None:
    async def scenario() -> None:
        async with open_table(database) as table:
            for move in schedule:
                before = await table.snapshot()
                current, believed = before[1].epoch, table.epochs[move[1]]
                refusal = await table.play(move)
                if refusal is not None:
                    assert await table.snapshot() == before
                if move[0] in BY_OWNER and move[0] != "take_over" and believed != current:
                    assert isinstance(refusal, FencedError)

    asyncio.run(scenario())


@a_database_lives_longer
@given(rounds=many_at_once)
def test_moves_made_at_once_start_a_call_at_most_once_and_leave_a_whole_chain(
    database: Database, rounds: list[list[Move]]
) -> None:
    async def scenario() -> None:
        async with open_table(database) as table:
            for together in rounds:
                # Each twice, so that every move races against itself too.
                await asyncio.gather(*(table.play(move) for move in together + together))

    asyncio.run(scenario())
