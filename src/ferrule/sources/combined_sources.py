"""Joined: several sources as one. A name that two of them claim is neither's: nobody may take another's calls."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

from ferrule.core.context import CallContext
from ferrule.core.outcome import NotDelivered, Outcome
from ferrule.core.tool import ToolDefinition
from ferrule.sources.source import Source
from ferrule.sources.status import Described, Quarantined, Standing

_CONTESTED = "is claimed by several sources and is not offered"


class Joined(Source):
    """`notices` are those of each source, and which names were claimed twice."""

    def __init__(self, sources: Iterable[Source], *, id: str = "all") -> None:
        self.id = id
        self.sources = tuple(sources)
        self._contested: tuple[tuple[Source, ToolDefinition], ...] = ()
        self._owners: dict[str, Source] = {}
        self._stack = AsyncExitStack()

    async def tools(self) -> tuple[ToolDefinition, ...]:
        found = [(source, tool) for source in self.sources for tool in await source.tools()]
        claims = Counter(tool.name for _, tool in found)
        self._contested = tuple((source, tool) for source, tool in found if claims[tool.name] > 1)
        self._owners = {tool.name: source for source, tool in found if claims[tool.name] == 1}
        return tuple(tool for _, tool in found if claims[tool.name] == 1)

    @property
    def notices(self) -> tuple[str, ...]:
        clashes = dict.fromkeys(f"{tool.name} {_CONTESTED}" for _, tool in self._contested)
        return (*(words for source in self.sources for words in source.notices), *clashes)

    @property
    def held_back(self) -> tuple[str, ...]:
        return tuple(name for source in self.sources for name in source.held_back)

    @property
    def standings(self) -> tuple[Standing, ...]:
        """Of each source, with the tools that calls really reach there, as of the last list."""
        return tuple(self._joined(source, one) for source in self.sources for one in source.standings)

    @property
    def owners(self) -> Mapping[str, Source]:
        """Where each tool comes from, as of the last list."""
        return self._owners

    async def call(self, name: str, arguments: Mapping[str, Any], context: CallContext) -> Outcome:
        if name not in self._owners:
            await self.tools()
        owner = self._owners.get(name)
        if owner is None:
            return NotDelivered(f"there is no tool {name!r}", code="bad_request")
        return await owner.call(name, arguments, context)

    def owner_of(self, name: str) -> str:
        """The id of the source that a tool was listed by; empty where none was."""
        owner = self._owners.get(name)
        return owner.id if owner else ""

    def _joined(self, source: Source, one: Standing) -> Standing:
        mine = tuple(name for name, owner in self._owners.items() if owner is source and _is_of(one, name))
        contested = [
            Quarantined(tool.name, _CONTESTED, Described.of(tool))
            for owner, tool in self._contested
            if owner is source and _is_of(one, tool.name)
        ]
        return replace(one, tools=mine, quarantined=(*one.quarantined, *contested))

    async def changes(self) -> AsyncGenerator[None]:
        woken = asyncio.Event()
        watching = [asyncio.ensure_future(_watch(source, woken)) for source in self.sources]
        try:
            while not all(task.done() for task in watching):
                await woken.wait()
                woken.clear()
                yield
        finally:
            for task in watching:
                task.cancel()
            await asyncio.gather(*watching, return_exceptions=True)

    async def open(self) -> None:
        for source in self.sources:
            await self._stack.enter_async_context(source)

    async def close(self) -> None:
        await self._stack.aclose()


def _is_of(one: Standing, name: str) -> bool:
    return one.tools is None or name in one.tools


async def _watch(source: Source, woken: asyncio.Event) -> None:
    async for _ in source.changes():
        woken.set()
    # One that never changes ends at once; whoever waits looks whether anybody is left.
    woken.set()
