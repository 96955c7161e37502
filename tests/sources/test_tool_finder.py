"""A finder builds the index of a set of tools once, and nobody else's search waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from ferrule.core.tool import ToolDefinition
from ferrule.sources.search.tool_finder import ToolFinder

SMALL = {name: ToolDefinition(name, f"Knows the {name}.") for name in ("weather", "time")}


def large_set(number: int) -> Mapping[str, ToolDefinition]:
    tools = [ToolDefinition(f"tool_{number}_{place}", f"Does {place}. " * 50) for place in range(500)]
    return {tool.name: tool for tool in tools}


def test_a_search_of_a_set_that_has_its_index_waits_for_no_other_set() -> None:
    async def scenario() -> None:
        finder = ToolFinder()
        await finder("weather", 1, SMALL)
        builds = [asyncio.ensure_future(finder("does", 1, large_set(number))) for number in range(12)]
        await asyncio.sleep(0)
        for _ in range(3):
            assert await finder("weather", 1, SMALL) == ["weather"]
        assert sum(build.done() for build in builds) < 6
        await asyncio.gather(*builds)

    asyncio.run(scenario())


def test_two_requests_with_the_same_new_set_build_one_index_in_whatever_order_they_bring_it() -> None:
    async def scenario() -> None:
        finder, tools = ToolFinder(), large_set(0)
        backwards = dict(reversed(list(tools.items())))
        one, other = await asyncio.gather(finder("does", 5, tools), finder("does", 5, backwards))
        assert one == other
        assert finder._indexes.misses == 1  # pyright: ignore[reportPrivateUsage]

    asyncio.run(scenario())


def test_a_request_that_is_cancelled_does_not_cancel_the_index_that_another_waits_for() -> None:
    async def scenario() -> None:
        finder, tools = ToolFinder(), large_set(1)
        first, second = (asyncio.ensure_future(finder("does", 1, tools)) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        assert len(await second) == 1
        with pytest.raises(asyncio.CancelledError):
            await first

    asyncio.run(scenario())
