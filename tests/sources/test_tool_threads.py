"""Threads for plain functions: bounded per tool and per tenant, so that what hangs takes nothing from others."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Coroutine
from typing import Any

import pytest

from ferrule import tool
from ferrule.core.call import ToolCall
from ferrule.core.context import CallContext, Principal
from ferrule.core.outcome import Answered, NotDelivered, Outcome
from ferrule.run.executor import ToolExecutor
from ferrule.sources import tool_threads
from ferrule.sources.functions import Functions
from ferrule.sources.status import ToolLoad
from ferrule.sources.tool_threads import Busy, ToolThreads
from waiting import MOMENT, until

ACME, EVIL = Principal("ann", "acme"), Principal("eve", "evil")


class Gate:
    """Tools that wait until they are released, as a hung one does for ever."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.running = 0

    @tool
    def hang(self) -> str:
        """Hangs."""
        self.running += 1
        self.opened.wait()
        return "released"

    @tool
    def look(self) -> str:
        """Looks."""
        return "seen"


def context(principal: Principal, seconds: float | None = MOMENT) -> CallContext:
    return CallContext(principal=principal, deadline=None if seconds is None else time.time() + seconds)


async def fill(source: Functions, gate: Gate, principal: Principal, count: int, seconds: float) -> list[Any]:
    """Start calls that hang, each with a deadline so many seconds from now."""
    calls = [asyncio.ensure_future(source.call("hang", {}, context(principal, seconds))) for _ in range(count)]
    running = gate.running + count
    await until(lambda: gate.running >= running)
    return calls


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(scenario)


def test_hung_calls_take_threads_neither_from_another_tenant_nor_from_another_tool() -> None:
    async def scenario() -> None:
        gate = Gate()
        async with Functions([gate.hang, gate.look], threads=4) as source:
            calls = await fill(source, gate, ACME, 4, 0.0)
            refused = await source.call("hang", {}, context(ACME))
            assert isinstance(refused, NotDelivered)
            assert refused.code == "tool_busy"
            assert "4 of their calls did not return" in refused.reason
            assert await source.call("look", {}, context(ACME)) == Answered("seen")
            assert await source.call("look", {}, context(EVIL)) == Answered("seen")
            calls += await fill(source, gate, EVIL, 4, MOMENT)
            assert source.loads == (ToolLoad("hang", 8, 4),)
            gate.opened.set()
            assert await asyncio.gather(*calls) == [Answered("released")] * 8
            await until(lambda: source.loads == ())

    run(scenario())


def test_all_tools_of_a_tenant_together_are_bounded_too() -> None:
    async def scenario() -> None:
        gate = Gate()
        async with Functions([gate.hang, gate.look], threads=4, tenant_threads=4) as source:
            calls = await fill(source, gate, ACME, 4, 0.0)
            refused = await source.call("look", {}, context(ACME))
            assert isinstance(refused, NotDelivered)
            assert await source.call("look", {}, context(EVIL)) == Answered("seen")
            gate.opened.set()
            await asyncio.gather(*calls)

    run(scenario())


def test_a_burst_waits_for_its_turn_and_every_call_runs_once() -> None:
    seen: list[int] = []

    def note(number: int) -> int:
        seen.append(number)
        return number

    async def scenario() -> None:
        async with Functions([note], threads=2) as source:
            calls = [source.call("note", {"number": number}, context(ACME)) for number in range(100)]
            assert await asyncio.gather(*calls) == [Answered(number) for number in range(100)]

    run(scenario())
    assert sorted(seen) == list(range(100))


def test_a_call_that_finds_no_free_thread_is_refused_after_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool_threads, "_WAIT_SECONDS", 0.05)

    async def scenario() -> None:
        gate = Gate()
        async with Functions([gate.hang], threads=1) as source:
            calls = await fill(source, gate, ACME, 1, MOMENT)
            refused = await source.call("hang", {}, context(ACME))
            assert refused == NotDelivered("all 1 threads of the tool 'hang' are busy", code="tool_busy")
            gate.opened.set()
            await asyncio.gather(*calls)
            assert await source.call("hang", {}, context(ACME)) == Answered("released")

    run(scenario())


def test_a_call_that_waited_in_vain_until_near_its_deadline_certainly_did_not_run() -> None:
    async def scenario() -> None:
        gate = Gate()
        source = Functions([tool(side_effects=True)(gate.hang.function)], threads=1)
        hanging = await fill(source, gate, ACME, 1, MOMENT)
        executor = ToolExecutor(source)
        await executor.refresh()
        outcome = await executor.run(ToolCall.of("hang", {}, id="c1"), context(ACME, 0.5))
        assert isinstance(outcome, NotDelivered)
        gate.opened.set()
        await asyncio.gather(*hanging)

    run(scenario())


@pytest.mark.parametrize("has_deadline", [True, False])
def test_a_call_that_is_cancelled_keeps_its_thread_until_it_returns(has_deadline: bool) -> None:
    async def scenario() -> None:
        gate = Gate()
        async with Functions([gate.hang], threads=1) as source:
            call = asyncio.ensure_future(source.call("hang", {}, context(ACME, 0.01 if has_deadline else None)))
            await until(lambda: gate.running == 1)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            await until(lambda: source.loads == (ToolLoad("hang", 1, 1),))
            assert isinstance(await source.call("hang", {}, context(ACME)), NotDelivered)
            gate.opened.set()
            await until(lambda: source.loads == ())
            assert await source.call("hang", {}, context(ACME)) == Answered("released")

    run(scenario())


@pytest.mark.parametrize("is_granted", [False, True])
def test_a_waiting_call_that_is_cancelled_gives_its_thread_back(
    monkeypatch: pytest.MonkeyPatch, is_granted: bool
) -> None:
    async def scenario() -> None:
        threads = ToolThreads(1, 1)
        slot = await threads.acquire("a", "t", None)
        assert not isinstance(slot, Busy)
        waiting = asyncio.ensure_future(threads.acquire("a", "t", None))
        await asyncio.sleep(0)
        notify = threads._notify

        def cancel_in_the_same_moment(waiter: Any) -> None:
            notify(waiter)
            waiting.cancel()

        if is_granted:
            monkeypatch.setattr(threads, "_notify", cancel_in_the_same_moment)
        else:
            waiting.cancel()
        assert await threads.run(slot, lambda: 1) == 1
        assert isinstance((await asyncio.gather(waiting, return_exceptions=True))[0], asyncio.CancelledError)
        await until(lambda: threads.loads == ())
        assert not isinstance(await threads.acquire("a", "t", None), Busy)

    run(scenario())


def test_threads_are_used_again_and_do_not_keep_a_program_from_ending() -> None:
    async def scenario() -> None:
        async with Functions([thread_of_call]) as source:
            threads = [await source.call("thread_of_call", {}, context(ACME)) for _ in range(20)]
        contents = [one.content for one in threads if isinstance(one, Answered)]
        assert all(is_daemon for _, is_daemon in contents)
        assert len({ident for ident, _ in contents}) < len(contents) == 20

    run(scenario())


def thread_of_call() -> tuple[int, bool]:
    return threading.get_ident(), threading.current_thread().daemon


def test_the_executor_reports_a_busy_tool_as_not_delivered_also_for_side_effects() -> None:
    async def scenario() -> Outcome:
        gate = Gate()
        source = Functions([tool(side_effects=True)(gate.hang.function)], threads=1)
        executor = ToolExecutor(source, per_tool_timeout_seconds=0.01)
        await executor.refresh()
        await executor.run(ToolCall.of("hang", {}, id="c1"))
        executor.per_tool_timeout_seconds = MOMENT
        outcome = await executor.run(ToolCall.of("hang", {}, id="c2"))
        gate.opened.set()
        return outcome

    outcome = asyncio.run(scenario())
    assert isinstance(outcome, NotDelivered)
    assert outcome.code == "tool_busy"
