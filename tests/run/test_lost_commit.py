"""A commit whose answer was lost: the ledger finds out whether it was made, and the turn continues."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import signal
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TypeVar

import psycopg
import pytest

from ferrule import CallContext, Decision, Reply, ToolCall, ToolConversation, tool
from ferrule.core.outcome import Answered
from ferrule.engines.fake import FakeEngine
from ferrule.errors import FencedError, LedgerUnavailableError
from ferrule.run.ledger.address import open_ledger
from ferrule.run.ledger.ledger import CallState, ResponseRecord, ResponseStatus
from ferrule.run.ledger.sql import SqlLedger
from run.ledger_databases import ANN, LEASE, Database, claim, postgres_cluster, postgres_database
from run.lossy_proxy import lossy_proxy

pytestmark = pytest.mark.live
T = TypeVar("T")


async def allow(call: ToolCall) -> Decision:
    return Decision(True)


def two_effects() -> FakeEngine:
    calls = [ToolCall.of("pay", {"amount": amount}, id=f"c{amount}") for amount in (1, 2)]
    return FakeEngine([Reply.of(*calls), Reply.of("Paid.")])


async def pay_two(where: str, paid: Counter[int], id: str = "c") -> None:
    @tool(side_effects=True)
    def pay(amount: int) -> str:
        paid[amount] += 1
        return f"paid {amount}"

    async with await open_ledger(where) as ledger:
        options = {"decide": allow, "context": CallContext(principal=ANN)}
        conversation = await ToolConversation.open(ledger, id, two_effects(), [pay], **options)
        turn = await conversation.send_message("Pay one and two.")
        assert turn.text == "Paid."
        await conversation.close()


def test_a_turn_ends_as_if_nothing_had_happened_whichever_write_loses_its_request_or_answer(cluster: Path) -> None:
    async def scenario(number: int, how: str) -> bool:
        """Run the turn. Whether there was such a write."""
        database = postgres_database(cluster)
        paid: Counter[int] = Counter()
        async with lossy_proxy(cluster, {number: how}) as proxy:
            await pay_two(proxy.address(database.where), paid)
        assert paid == {1: 1, 2: 1}
        async with await open_ledger(database.where) as ledger:
            assert [call.state for call in await ledger.calls("c")] == [CallState.DONE] * 2
            kinds = Counter(row.kind for row in await ledger.audit("c"))
            assert (kinds["started"], kinds["done"], kinds["opened"], kinds["released"]) == (2, 2, 1, 1)
            assert await ledger.verify() is None
        assert proxy.broken == (number <= proxy.writes)
        return bool(proxy.broken)

    async def every_write() -> None:
        number = 1
        while await scenario(number, "request") | await scenario(number, "answer"):
            number += 1
        assert number > 4

    asyncio.run(every_write())


def test_a_start_that_was_written_is_not_begun_after_another_owner_has_taken_over(cluster: Path) -> None:
    database = postgres_database(cluster)

    async def scenario() -> None:
        async with lossy_proxy(cluster, {}) as proxy, await open_ledger(proxy.address(database.where)) as ledger:
            await ledger.open("c", ANN, "one", LEASE, now=0)
            await ledger.propose(claim(), 1, side_effects=True, needs_approval=False, now=0)
            async with await open_ledger(database.where) as other:

                async def take_over() -> None:
                    proxy.before_connection = None
                    await other.take_over("c", "two", LEASE, now=LEASE + 1)

                # The new connection is made only after that.
                proxy.before_connection = take_over
                proxy.lost[proxy.writes + 1] = "answer"
                with pytest.raises((FencedError, LedgerUnavailableError)):
                    await ledger.start(claim(), 1, now=1)
                call = await other.call("c", "k")
                assert call is not None
                assert call.state is CallState.UNKNOWN
                with pytest.raises(FencedError):
                    await ledger.start(claim(), 1, now=1)

    asyncio.run(scenario())


def test_a_step_that_somebody_else_has_made_meanwhile_is_not_taken_for_ours(cluster: Path) -> None:
    database = postgres_database(cluster)

    async def scenario() -> None:
        async with lossy_proxy(cluster, {}) as proxy, await open_ledger(proxy.address(database.where)) as ledger:
            await ledger.open("c", ANN, "one", LEASE, now=0)
            await ledger.propose(claim(), 1, side_effects=True, needs_approval=False, now=0)
            async with await open_ledger(database.where) as other:
                # Both start the same call with the same epoch: the other one first, while our request is lost.
                assert await other.start(claim(), 1, now=1)
                proxy.lost[proxy.writes + 1] = "request"
                assert not await ledger.start(claim(), 1, now=2)

    asyncio.run(scenario())


@pytest.mark.parametrize("how", ["request", "answer"])
@pytest.mark.parametrize("is_cancelled", [False, True])
def test_events_whose_write_was_lost_are_there_once_and_in_order(cluster: Path, how: str, is_cancelled: bool) -> None:
    # Events alone add no audit row.
    database = postgres_database(cluster)

    async def scenario() -> None:
        async with lossy_proxy(cluster, {}) as proxy, await open_ledger(proxy.address(database.where)) as ledger:
            await ledger.open("c", ANN, "one", LEASE, now=0)
            response = ResponseRecord(
                "r", "c", *(ANN.tenant, ANN.name), ResponseStatus.QUEUED, "m", 0.0, 0, False, "{}"
            )
            await ledger.add_response(response, 1, ("0",), None, now=0)
            async with await open_ledger(database.where) as other:

                async def cancel() -> None:
                    proxy.before_connection = None
                    await other.cancel_response("r", ANN, now=1)

                proxy.before_connection = cancel if is_cancelled else None
                proxy.lost[proxy.writes + 1] = how
                # Also where it was written, and another one came between.
                await ledger.append_events("r", 1, ("1", "2"), first=1, now=1)
                assert await other.response_events("r") == ("0", "1", "2")
                await ledger.append_events("r", 1, ("3",), first=3, now=1)
                assert await other.response_events("r") == ("0", "1", "2", "3")
                assert await other.verify() is None

    asyncio.run(scenario())


@pytest.fixture
def own_cluster() -> Iterator[Path]:
    with postgres_cluster() as folder:
        yield folder


async def _kill_writers(database: Database, times: int) -> None:
    """Kill server processes that write, one after another. The server ends all others too, and starts again."""
    chance, killed = random.Random(times), 0
    query = "SELECT pid FROM pg_stat_activity WHERE starts_with(query, 'WITH ') AND pid <> pg_backend_pid()"
    while killed < times:
        await asyncio.sleep(chance.uniform(0.05, 0.4))
        try:
            pids = [pid for (pid,) in await asyncio.to_thread(database.execute, query, ())]
        except psycopg.OperationalError:
            # It is starting again.
            continue
        if pids:
            os.kill(chance.choice(pids), signal.SIGKILL)
            killed += 1


async def _until_it_answers(work: Callable[[], Awaitable[T]]) -> T:
    """What did not reach the server at all may be tried again."""
    while True:
        try:
            return await work()
        except LedgerUnavailableError:
            await asyncio.sleep(0.05)


def test_a_server_process_that_is_killed_at_work_costs_no_effect_and_none_is_unknown(own_cluster: Path) -> None:
    database = postgres_database(own_cluster)
    begun: Counter[tuple[str, str]] = Counter()

    async def keep_calling(ledger: SqlLedger, id: str, over: asyncio.Future[None]) -> None:
        for number in itertools.count():
            if over.done():
                return
            what, name = claim(id, f"k{number}"), f"k{number}"
            propose = partial(ledger.propose, what, 1, side_effects=True, needs_approval=False, now=1)
            await _until_it_answers(propose)
            if await _until_it_answers(partial(ledger.start, what, 1, now=1)):
                begun[id, name] += 1
                await _until_it_answers(partial(ledger.finish, id, name, 1, Answered("paid"), now=1))

    async def scenario(ledger: SqlLedger) -> None:
        ids = [f"c{number}" for number in range(8)]
        for id in ids:
            await ledger.open(id, ANN, "one", LEASE, now=0)
        over = asyncio.ensure_future(_kill_writers(database, 5))
        await asyncio.gather(over, *(keep_calling(ledger, id, over) for id in ids))
        calls = [call for id in ids for call in await _until_it_answers(partial(ledger.calls, id))]
        assert {call.state for call in calls} == {CallState.DONE}
        assert begun == Counter((call.conversation, call.id) for call in calls)
        assert await ledger.verify() is None

    database.run(scenario)
