"""CallTimer: a call's time stands still while it waits for a person, and a caller's own deadline never does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

import pytest

from ferrule.core.context import CallContext
from ferrule.core.outcome import Answered, Outcome, Unknown
from ferrule.core.tool import ToolDefinition
from ferrule.sources.adapters import TimeoutAdapter
from ferrule.sources.call_timer import CallTimer
from ferrule.sources.source import Source
from waiting import MOMENT

LIMIT = 0.02


def test_a_paused_timer_lets_more_time_pass_than_its_limit() -> None:
    async def scenario() -> None:
        async with CallTimer(LIMIT) as timer:
            with timer.pause(), timer.pause():
                await asyncio.sleep(LIMIT * 5)

    asyncio.run(scenario())


def test_after_the_last_pause_the_time_goes_on() -> None:
    async def scenario() -> None:
        async with CallTimer(LIMIT) as timer:
            with timer.pause():
                await asyncio.sleep(LIMIT * 2)
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        asyncio.run(scenario())


def test_a_renewed_timer_begins_again() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        async with CallTimer(MOMENT) as outer, CallTimer(MOMENT, outer_renew=outer.renew) as timer:
            limits = [loop.time() + MOMENT]
            for _ in range(3):
                await asyncio.sleep(LIMIT)
                timer.renew()
                assert outer.when > limits[-1]
                limits.append(outer.when)

    asyncio.run(scenario())


def test_to_renew_a_timer_moves_no_deadline_of_the_caller() -> None:
    async def scenario() -> None:
        async with CallTimer(3600, deadline=time.time() + LIMIT) as timer:
            timer.renew()
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        asyncio.run(scenario())


def test_a_pause_moves_no_deadline_of_the_caller() -> None:
    async def scenario() -> None:
        async with CallTimer(3600, deadline=time.time() + LIMIT) as timer:
            with timer.pause():
                await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        asyncio.run(scenario())


class Slow(Source):
    """Its one tool waits longer than the limit, with or without a pause."""

    id = "slow"

    def __init__(self, *, pauses: bool) -> None:
        self._pauses = pauses

    async def tools(self) -> tuple[ToolDefinition, ...]:
        return (ToolDefinition("ask", side_effects=True),)

    async def call(self, name: str, arguments: Mapping[str, Any], context: CallContext) -> Outcome:
        if not self._pauses:
            await asyncio.Event().wait()
        with context.pause():
            await asyncio.sleep(LIMIT * 5)
        return Answered(name)


def test_a_pause_reaches_the_timers_around_it() -> None:
    source = TimeoutAdapter(TimeoutAdapter(Slow(pauses=True), LIMIT), LIMIT)
    assert asyncio.run(source.call("ask", {}, CallContext())) == Answered("ask")


def test_without_a_pause_the_limit_holds() -> None:
    outcome = asyncio.run(TimeoutAdapter(Slow(pauses=False), LIMIT).call("ask", {}, CallContext()))
    assert isinstance(outcome, Unknown)
    assert outcome.code == "timeout"
