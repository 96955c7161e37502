"""If a process loses the ledger at any moment, another continues its response: no event and no side effect happens
twice, and the response ends."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from ferrule.core.call import ToolCall
from ferrule.core.event import CallEnd, Event
from ferrule.core.reply import Reply
from ferrule.core.request import ToolCallRequest
from ferrule.errors import LedgerUnavailableError
from ferrule.run.ledger.heartbeat import Beat
from ferrule.run.ledger.ledger import ResponseStatus
from ferrule.server.apis.responses.store import ResponseStore
from ferrule.server.config.config import TracesConfig
from server.client import Client, gateway_of, scripted_engine
from server.keys import bearer, config_with_keys, key
from server.responses_world import (
    PATH,
    EndlessEngine,
    SteppingEngine,
    ToolLog,
    check_stream,
    config,
    follow,
    items,
    text_of,
    wait_for_end,
)

LEASE = 0.2
LONG_LEASE = 60.0
"""Longer than any of these answers takes."""


class Cut:
    """A ledger that cannot be reached after so many transactions: the last one is lost, or made and not heard of.

    Signs of life do not reach it either. On a slow machine a turn is long enough to be kept by them.
    """

    def __init__(self, ledger: Any, after: int, is_made: bool) -> None:
        self.count = 0
        self.is_cut = False
        self._after = after
        self._is_made = is_made
        self._real: Callable[..., Awaitable[Any]] = ledger._transact
        ledger._transact = self.transact
        self._open_real_beat: Callable[[], Beat] = ledger._open_beat
        ledger._open_beat = lambda: CutBeat(self, self._open_real_beat())

    async def transact(self, work: Any, **options: Any) -> Any:
        self.count += 1
        if self.count > self._after:
            if self.count == self._after + 1 and self._is_made:
                await self._real(work, **options)
            self.is_cut = True
            raise LedgerUnavailableError("cut off")
        return await self._real(work, **options)


@dataclass
class CutBeat:
    """The signs of life of a process that a ledger hears until it is cut off."""

    cut: Cut
    real: Beat

    def __call__(self, owner: str, until: float) -> None:
        if self.cut.is_cut:
            raise LedgerUnavailableError("cut off")
        self.real(owner, until)

    def close(self) -> None:
        self.real.close()


@asynccontextmanager
async def two_gateways(tmp_path: Path, world: ToolLog, engine: Any = None):  # type: ignore[no-untyped-def]
    """On one ledger. With a short lease, both would take the response over from each other on a busy machine."""
    # Traces are written when there is time: their transactions would change which one is cut.
    settings = config(str(tmp_path / "ledger.db"), LONG_LEASE, confirms=False, traces=TracesConfig(days=0))
    async with (
        gateway_of(engine or SteppingEngine(), sources=[world.source()], config=settings) as first,
        gateway_of(SteppingEngine(), sources=[world.source()], config=settings) as second,
    ):
        yield first, second


@asynccontextmanager
async def taken_over(cut: Cut, gateway: Any, where: Path) -> AsyncGenerator[None]:
    """Once the ledger is cut off, the first owner's lease has expired, and another process looks for what it left.

    A lease that expires by itself would have to be short, and on a slow machine the other process would lose it too.
    """

    def expire() -> None:
        with closing(sqlite3.connect(where, timeout=60.0)) as other:
            other.execute("UPDATE ferrule_conversation SET lease_until = 0 WHERE epoch = 1")
            other.commit()

    async def look() -> None:
        # A transaction of the first one may still be on its way, and write the lease as it knows it.
        while True:
            if cut.is_cut:
                await asyncio.to_thread(expire)
                await store.sweep_once()
            await asyncio.sleep(0.01)

    store = ResponseStore(gateway)
    looking = asyncio.ensure_future(look())
    try:
        yield
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
        await store.close()


async def transactions(tmp_path: Path, engine: Any = None) -> int:
    """How many a whole response takes."""
    async with two_gateways(tmp_path, ToolLog(), engine) as (first, second):
        cut = Cut(first.gateway.ledger, 10_000, False)
        id = (await first.post(PATH, {"input": "go", "background": True})).json()["id"]
        # Asked of the other one: the longer a response takes, the more often it is read.
        await wait_for_end(second, id)
        return cut.count


@pytest.mark.parametrize("is_made", [False, True])
@pytest.mark.parametrize("pause", [0.0, pytest.param(0.05, marks=pytest.mark.long)])
def test_cut_off_at_any_transaction_it_is_ended_by_another_and_every_effect_happens_once(
    tmp_path: Path, is_made: bool, pause: float
) -> None:
    async def cut_at(number: int) -> int:
        folder = tmp_path / str(number)
        folder.mkdir()
        world = ToolLog()
        async with two_gateways(folder, world, SteppingEngine(pause=pause)) as (first, second):
            cut = Cut(first.gateway.ledger, number, is_made)
            begun = await first.post(PATH, {"input": "go", "background": True})
            if begun.status != 200:
                assert begun.json()["error"]["code"] == "ledger_unavailable"
                return 0
            async with taken_over(cut, second.gateway, folder / "ledger.db"):
                events = await follow(second, begun.json()["id"])
            check_stream(events)
            response = events[-1]["response"]
            assert (response["status"], text_of(response).endswith("All done.")) == ("completed", True), number
            effects = [one for one in world.calls if one.startswith("pay")]
            assert len(effects) == len(set(effects)), (number, world.calls)
            lost = [one for one in items(response, "mcp_call") if "unknown" in str(one["error"])]
            assert len(effects) + len(lost) >= 2, "a call with an unknown outcome is reported as unknown"
            assert await second.gateway.ledger.verify() is None
            return int(cut.is_cut)

    async def story() -> None:
        most = await transactions(tmp_path, SteppingEngine(pause=pause))
        cuts = [await cut_at(number) for number in range(2, most, 2 if is_made else 1)]
        assert sum(cuts) >= len(cuts) // 2

    asyncio.run(story())


def test_a_reader_in_another_process_gets_every_event_once_while_the_owner_works(tmp_path: Path) -> None:
    async def story() -> None:
        async with two_gateways(tmp_path, ToolLog(), SteppingEngine(pause=0.01)) as (first, second):
            id = (await first.post(PATH, {"input": "go", "background": True})).json()["id"]
            here, there = await asyncio.gather(follow(first, id), follow(second, id))
            check_stream(here)
            assert here == there

    asyncio.run(story())


def test_a_response_is_cancelled_from_another_process(tmp_path: Path) -> None:
    async def story() -> None:
        engine = EndlessEngine()
        async with two_gateways(tmp_path, ToolLog(), engine) as (first, second):
            id = (await first.post(PATH, {"input": "go", "background": True})).json()["id"]
            await engine.has_begun.wait()
            events = (await second.request("POST", f"{PATH}/{id}/cancel")).json()
            if events["status"] != "cancelled":
                events = await wait_for_end(second, id)
            assert events["status"] == "cancelled"
            assert engine.is_stopped.is_set()

    asyncio.run(story())


def test_a_gateway_that_stops_hands_over_what_is_under_way(tmp_path: Path) -> None:
    async def story() -> None:
        world = ToolLog()
        settings = config(str(tmp_path / "ledger.db"), 30.0, confirms=False)
        async with gateway_of(SteppingEngine(pause=0.02), sources=[world.source()], config=settings) as first:
            id = (await first.post(PATH, {"input": "go", "background": True})).json()["id"]
            while not world.calls:
                await asyncio.sleep(0.001)
        # Long before the lease would have run out.
        async with gateway_of(SteppingEngine(), sources=[world.source()], config=settings) as second:
            events = await follow(second, id)
            check_stream(events)
            assert events[-1]["response"]["status"] == "completed"
        payments = [one for one in world.calls if one.startswith("pay")]
        assert len(payments) == len(set(payments))

    asyncio.run(story())


def test_a_callers_call_completed_before_the_process_died_is_in_the_history(tmp_path: Path) -> None:
    call = ToolCall.of("weather", {}, id="told")
    weather = {"type": "function", "name": "weather", "parameters": {"type": "object", "properties": {}}}

    class Halting(SteppingEngine):
        """Stops after its call, for ever."""

        async def stream_request(self, request: ToolCallRequest) -> AsyncGenerator[Event, None]:
            async for event in scripted_engine(Reply.of(call)).stream(request):
                yield event
                if isinstance(event, CallEnd):
                    await asyncio.sleep(3600)

    async def story() -> None:
        settings = config(str(tmp_path / "ledger.db"), LEASE)
        body = {"input": "go", "background": True, "tools": [weather]}
        async with gateway_of(Halting(), config=settings) as first:
            id = (await first.post(PATH, body)).json()["id"]
            while not items((await first.get(f"{PATH}/{id}")).json(), "function_call"):
                await asyncio.sleep(0.005)
        engine = scripted_engine("Let me think.", "Fine.")
        async with gateway_of(engine, config=settings) as second:
            events = await wait_for_end(second, id)
            assert [item["type"] for item in events["output"]] == ["function_call", "message"]
            result = {"type": "function_call_output", "call_id": "told", "output": "sunny"}
            again = {"input": [result], "previous_response_id": id, "tools": [weather]}
            assert text_of((await second.post(PATH, again)).json()) == "Fine."
            assert [one.id for one in engine.requests[1].messages[1].tool_calls] == ["told"]

    asyncio.run(story())


def test_a_response_of_an_owner_without_a_key_fails(tmp_path: Path) -> None:
    async def story() -> None:
        where = str(tmp_path / "ledger.db")
        async with gateway_of(EndlessEngine(), config=_with_key(where, "ann")) as first:
            id = (await first.post(PATH, {"input": "go", "background": True}, bearer("ann"))).json()["id"]
        async with gateway_of(EndlessEngine(), config=_with_key(where, "bob")) as second:
            record = await _settle(second, id)
            assert record.status is ResponseStatus.FAILED

    asyncio.run(story())


def test_a_response_whose_plan_cannot_be_read_ends_as_failed_and_holds_up_no_other(tmp_path: Path) -> None:
    async def story() -> None:
        where, world = tmp_path / "ledger.db", ToolLog()
        settings = config(str(where), 30.0, confirms=False)
        async with gateway_of(EndlessEngine(), sources=[world.source()], config=settings) as first:
            ids = [(await first.post(PATH, {"input": "go", "background": True})).json()["id"] for _ in range(2)]
        with closing(sqlite3.connect(where)) as other:
            other.execute("UPDATE ferrule_response SET request = '{}' WHERE id = ?", (ids[0],))
            other.commit()
        async with gateway_of(SteppingEngine(), sources=[world.source()], config=settings) as second:
            events = [await wait_for_end(second, id) for id in ids]
            assert [one["status"] for one in events] == ["failed", "completed"]

    asyncio.run(story())


def test_a_response_that_every_process_dies_of_is_given_up(tmp_path: Path) -> None:
    async def story() -> None:
        # A process that ends right after it took one up has not yet anything to give back: its lease must end.
        settings = config(str(tmp_path / "ledger.db"), 1.0)
        async with gateway_of(EndlessEngine(), config=settings) as client:
            id = (await client.post(PATH, {"input": "go", "background": True})).json()["id"]
        owners, is_ended = 1, False
        while not is_ended:
            async with gateway_of(EndlessEngine(), config=settings) as client:
                owners, is_ended = await _take_over(client, id, owners)
        events = await _get(tmp_path, id)
        assert (events["status"], "have stopped while they ran" in events["error"]["message"]) == ("failed", True)

    asyncio.run(story())


async def _take_over(client: Client, id: str, owners: int) -> tuple[int, bool]:
    """How many processes have held it once this one has, and whether it is over. However long that takes."""
    ledger = client.gateway.ledger
    while True:
        record = await ledger.response(id)
        assert record is not None
        conversation = await ledger.load(record.conversation)
        assert conversation is not None
        if record.is_ended or conversation.epoch > owners:
            return conversation.epoch, record.is_ended
        await asyncio.sleep(0.01)


async def _get(tmp_path: Path, id: str) -> Any:
    async with gateway_of(EndlessEngine(), config=config(str(tmp_path / "ledger.db"), 30.0)) as client:
        return await wait_for_end(client, id)


async def _settle(client: Client, id: str) -> Any:
    while True:
        record = await client.gateway.ledger.response(id)
        assert record is not None
        if record.is_ended:
            return record
        await asyncio.sleep(0.01)


def _with_key(where: str, name: str) -> Any:
    return replace(config_with_keys(key(name)), ledger=where, lease_seconds=LEASE)


def test_two_sweepers_take_a_response_up_once(tmp_path: Path) -> None:
    async def story() -> None:
        world = ToolLog()
        settings = config(str(tmp_path / "ledger.db"), 30.0, confirms=False)
        async with gateway_of(SteppingEngine(pause=0.02), sources=[world.source()], config=settings) as first:
            id = (await first.post(PATH, {"input": "go", "background": True})).json()["id"]
        engine = SteppingEngine(pause=0.005)
        async with gateway_of(engine, sources=[world.source()], config=settings) as second:
            others = [ResponseStore(second.gateway) for _ in range(4)]
            await asyncio.gather(*(one.sweep_once() for one in others))
            check_stream(await follow(second, id))
            assert len(engine.requests) <= 4, "one of them asks, in each of the rounds that are left"
            for one in others:
                await one.close()

    asyncio.run(story())
