"""Events are in the ledger before any reader sees them, in few transactions and in one order."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, cast

from hypothesis import given, settings
from hypothesis import strategies as st

from ferrule.core.context import Principal
from ferrule.run.ledger.ledger import ResponseRecord, ResponseStatus
from ferrule.run.ledger.sqlite import SqliteLedger
from ferrule.server.apis.responses.encoder import ResponseEventLog
from run.virtual_time import in_virtual_time
from waiting import PATIENCE

ANN = Principal("ann")


@asynccontextmanager
async def log_in(folder: Path, heartbeat: float = 60.0) -> AsyncGenerator[tuple[ResponseEventLog, SqliteLedger]]:
    async with await SqliteLedger.connect(folder / "ledger.db") as ledger:
        await ledger.open("c", ANN, "one", 60, now=0)
        whose = ("r", "c", ANN.tenant, ANN.name)
        record = ResponseRecord(*whose, ResponseStatus.IN_PROGRESS, "m", 0.0, 0, False, "{}")
        await ledger.add_response(record, 1, (), {}, now=0)
        yield ResponseEventLog(ledger, "r", 1, (), heartbeat=heartbeat, clock=lambda: 1.0), ledger


def count_transactions(ledger: Any) -> list[int]:
    """How many events each transaction had."""
    sizes: list[int] = []
    real = ledger.append_events

    async def tell(response: str, epoch: int, events: Any, **more: Any) -> Any:
        sizes.append(len(events))
        return await real(response, epoch, events, **more)

    ledger.append_events = tell
    return sizes


def test_readers_see_no_event_that_is_not_in_the_ledger(tmp_path: Path) -> None:
    async def story() -> None:
        async with log_in(tmp_path) as (log, ledger):
            going = asyncio.ensure_future(log.run())
            count = 0
            for number in range(60):
                log.add([{"number": number}])
                await log.wait_for_events(1.0 if number % 10 == 9 else 0.0)
                assert len(await ledger.response_events("r")) >= len(log.events) >= count
                count = len(log.events)
            while len(log.events) < 60:
                await log.wait_for_events(1.0)
            assert [json.loads(one)["number"] for one in await ledger.response_events("r")] == [*range(60)]
            going.cancel()
            await asyncio.gather(going, return_exceptions=True)

    asyncio.run(story())


def test_the_responses_of_a_process_write_at_the_same_moments_however_many_there_are() -> None:
    moments: set[float] = set()
    responses, seconds, pace = 40, 1.0, 0.02

    class Ledger:
        async def append_events(self, response: str, epoch: int, events: Any, **_: Any) -> ResponseRecord:
            moments.add(round(asyncio.get_running_loop().time(), 4))
            return ResponseRecord(response, "c", "", "", ResponseStatus.IN_PROGRESS, "m", 0.0, 0, False, "{}")

    async def answer(number: int) -> None:
        await asyncio.sleep(number * 0.0137)
        log = ResponseEventLog(cast(Any, Ledger()), f"r{number}", 1, (), heartbeat=60.0)
        going = asyncio.ensure_future(log.run())
        for event in range(int(seconds / pace)):
            log.add([{"number": event}])
            await asyncio.sleep(pace)
        await asyncio.sleep(seconds)
        assert len(log.events) == seconds / pace
        going.cancel()
        await asyncio.gather(going, return_exceptions=True)

    async def story() -> None:
        await asyncio.gather(*map(answer, range(responses)))

    in_virtual_time(story())
    # A moment for the first event of each, and twenty in a second for all the others together.
    assert len(moments) <= responses + 20 * (seconds + responses * 0.0137) + 2


def test_many_events_take_few_transactions(tmp_path: Path) -> None:
    async def story() -> None:
        async with log_in(tmp_path) as (log, ledger):
            sizes = count_transactions(ledger)
            going = asyncio.ensure_future(log.run())
            for number in range(640):
                log.add([{"number": number}])
                if log.is_full:
                    await log.flush()
                await asyncio.sleep(0)
            while len(log.events) < 640:
                await log.wait_for_events(1.0)
            assert max(sizes) <= 64 + 1
            assert len(sizes) < 640 / 8
            going.cancel()
            await asyncio.gather(going, return_exceptions=True)

    asyncio.run(story())


@given(cuts=st.lists(st.tuples(st.integers(1, 5), st.integers(0, 6)), max_size=8))
@settings(max_examples=20, deadline=None)
def test_a_writer_stopped_at_any_moment_leaves_no_gap_and_no_duplicate(
    tmp_path_factory: Any, cuts: list[tuple[int, int]]
) -> None:
    async def story() -> None:
        async with log_in(tmp_path_factory.mktemp("ledger")) as (log, ledger):
            number = 0
            for size, steps in cuts:
                log.add([{"number": number + at} for at in range(size)])
                number += size
                writing = asyncio.ensure_future(log.flush())
                for _ in range(steps):
                    await asyncio.sleep(0)
                writing.cancel()
                with suppress(asyncio.CancelledError):
                    await writing
            await log.flush([{"number": number}], status=ResponseStatus.COMPLETED)
            events = [json.loads(one)["number"] for one in await ledger.response_events("r")]
            assert events == [*range(number + 1)] == [json.loads(one)["number"] for one in log.events]
            assert log.has_ended

    asyncio.run(story())


def test_a_cancellation_is_noticed_within_a_heartbeat_without_events(tmp_path: Path) -> None:
    async def story() -> None:
        async with log_in(tmp_path, heartbeat=0.02) as (log, ledger):
            going = asyncio.ensure_future(log.run())
            await ledger.cancel_response("r", ANN, now=1)
            await asyncio.wait_for(log.cancel_requested.wait(), PATIENCE)
            going.cancel()
            await asyncio.gather(going, return_exceptions=True)

    asyncio.run(story())
