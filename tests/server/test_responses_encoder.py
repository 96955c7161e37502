"""Events are in the ledger before anybody hears of them, in few transactions and in one order."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ferrule.core.context import Principal
from ferrule.run.ledger.ledger import ResponseRecord, ResponseStatus
from ferrule.run.ledger.sqlite import SqliteLedger
from ferrule.server.apis.responses.encoder import Telling

ANN = Principal("ann")


@asynccontextmanager
async def telling_in(folder: Path, heartbeat: float = 60.0) -> AsyncGenerator[tuple[Telling, SqliteLedger]]:
    async with await SqliteLedger.at(folder / "ledger.db") as ledger:
        await ledger.open("c", ANN, "one", 60, now=0)
        whose = ("r", "c", ANN.tenant, ANN.name)
        record = ResponseRecord(*whose, ResponseStatus.IN_PROGRESS, "m", 0.0, 0, False, "{}")
        await ledger.add_response(record, 1, (), {}, now=0)
        yield Telling(ledger, "r", 1, (), heartbeat=heartbeat, clock=lambda: 1.0), ledger


def counted(ledger: Any) -> list[int]:
    """How many events each transaction had."""
    sizes: list[int] = []
    real = ledger.tell

    async def tell(response: str, epoch: int, events: Any, **more: Any) -> Any:
        sizes.append(len(events))
        return await real(response, epoch, events, **more)

    ledger.tell = tell
    return sizes


def test_nobody_hears_what_is_not_in_the_ledger(tmp_path: Path) -> None:
    async def story() -> None:
        async with telling_in(tmp_path) as (telling, ledger):
            going = asyncio.ensure_future(telling.go_on())
            heard = 0
            for number in range(60):
                telling.add([{"number": number}])
                await telling.news(1.0 if number % 10 == 9 else 0.0)
                assert len(await ledger.response_events("r")) >= len(telling.told) >= heard
                heard = len(telling.told)
            while len(telling.told) < 60:
                await telling.news(1.0)
            assert [json.loads(one)["number"] for one in await ledger.response_events("r")] == [*range(60)]
            going.cancel()
            await asyncio.gather(going, return_exceptions=True)

    asyncio.run(story())


def test_many_events_take_few_transactions(tmp_path: Path) -> None:
    async def story() -> None:
        async with telling_in(tmp_path) as (telling, ledger):
            sizes = counted(ledger)
            going = asyncio.ensure_future(telling.go_on())
            for number in range(640):
                telling.add([{"number": number}])
                if telling.is_full:
                    await telling.flush()
                await asyncio.sleep(0)
            while len(telling.told) < 640:
                await telling.news(1.0)
            assert max(sizes) <= 64 + 1
            assert len(sizes) < 640 / 8
            going.cancel()
            await asyncio.gather(going, return_exceptions=True)

    asyncio.run(story())


@given(cuts=st.lists(st.tuples(st.integers(1, 5), st.integers(0, 6)), max_size=8))
@settings(max_examples=20, deadline=None)
def test_a_writer_who_is_stopped_at_any_moment_leaves_neither_a_gap_nor_an_event_twice(
    tmp_path_factory: Any, cuts: list[tuple[int, int]]
) -> None:
    async def story() -> None:
        async with telling_in(tmp_path_factory.mktemp("ledger")) as (telling, ledger):
            number = 0
            for size, steps in cuts:
                telling.add([{"number": number + at} for at in range(size)])
                number += size
                writing = asyncio.ensure_future(telling.flush())
                for _ in range(steps):
                    await asyncio.sleep(0)
                writing.cancel()
                with suppress(asyncio.CancelledError):
                    await writing
            await telling.flush([{"number": number}], status=ResponseStatus.COMPLETED)
            told = [json.loads(one)["number"] for one in await ledger.response_events("r")]
            assert told == [*range(number + 1)] == [json.loads(one)["number"] for one in telling.told]
            assert telling.has_ended

    asyncio.run(story())


def test_a_wish_to_cancel_is_heard_within_a_heartbeat_though_nothing_is_told(tmp_path: Path) -> None:
    async def story() -> None:
        async with telling_in(tmp_path, heartbeat=0.02) as (telling, ledger):
            going = asyncio.ensure_future(telling.go_on())
            await ledger.cancel_response("r", ANN, now=1)
            await asyncio.wait_for(telling.cancelled.wait(), 30)
            going.cancel()
            await asyncio.gather(going, return_exceptions=True)

    asyncio.run(story())
