"""CombinedSources: several sources as one.

A tool name that two sources claim is not offered at all, so that one source cannot take another's calls.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Any

from ferrule.core.context import CallContext
from ferrule.core.outcome import NotDelivered, Outcome
from ferrule.core.tool import ToolDefinition
from ferrule.sources.source import Source
from ferrule.sources.status import QuarantinedTool, SourceStatus, ToolLoad, ToolSnapshot

_CONFLICT = "is claimed by several sources and is not offered"


@dataclass(frozen=True, slots=True)
class SourcePlan:
    """A source that a configuration names, before it is made. With an equal key the same source would come out."""

    key: object
    make: Callable[[], Source]


class CombinedSources(Source):
    """Several sources as one. `notices` are those of each source, plus one for each name that two sources claim."""

    def __init__(self, sources: Iterable[Source], *, id: str = "all") -> None:
        self.id = id
        self.sources = tuple(sources)
        self._conflicting: tuple[tuple[Source, ToolDefinition], ...] = ()
        self._owners: dict[str, Source] = {}
        self._open: dict[Source, AsyncExitStack] = {}
        self.in_flight = 0
        """How many calls run."""

    async def tools(self) -> tuple[ToolDefinition, ...]:
        listed_tools = [(source, tool) for source in self.sources for tool in await source.tools()]
        claims = Counter(tool.name for _, tool in listed_tools)
        self._conflicting = tuple((source, tool) for source, tool in listed_tools if claims[tool.name] > 1)
        self._owners = {tool.name: source for source, tool in listed_tools if claims[tool.name] == 1}
        return tuple(tool for _, tool in listed_tools if claims[tool.name] == 1)

    @property
    def notices(self) -> tuple[str, ...]:
        conflicts = dict.fromkeys(f"{tool.name} {_CONFLICT}" for _, tool in self._conflicting)
        return (*(notice for source in self.sources for notice in source.notices), *conflicts)

    @property
    def quarantined(self) -> tuple[str, ...]:
        return tuple(name for source in self.sources for name in source.quarantined)

    @property
    def statuses(self) -> tuple[SourceStatus, ...]:
        """The status of each source, with the tools that it serves here as of the last listing."""
        return tuple(self._offered_status(source, status) for source in self.sources for status in source.statuses)

    @property
    def loads(self) -> tuple[ToolLoad, ...]:
        return tuple(load for source in self.sources for load in source.loads)

    def refusal(self, name: str, context: CallContext) -> NotDelivered | None:
        owner = self._owners.get(name)
        return owner.refusal(name, context) if owner else None

    @property
    def owners(self) -> Mapping[str, Source]:
        """The source of each tool, as of the last listing."""
        return self._owners

    async def call(self, name: str, arguments: Mapping[str, Any], context: CallContext) -> Outcome:
        if name not in self._owners:
            await self.tools()
        owner = self._owners.get(name)
        if owner is None:
            return NotDelivered(f"there is no tool {name!r}", code="bad_request")
        self.in_flight += 1
        try:
            return await owner.call(name, arguments, context)
        finally:
            self.in_flight -= 1

    def owner_of(self, name: str) -> str:
        """The id of the source that lists a tool; empty if none does."""
        owner = self._owners.get(name)
        return owner.id if owner else ""

    def _offered_status(self, source: Source, status: SourceStatus) -> SourceStatus:
        tools = tuple(name for name, owner in self._owners.items() if owner is source and _lists(status, name))
        conflicting = [
            QuarantinedTool(tool.name, _CONFLICT, ToolSnapshot.of(tool))
            for owner, tool in self._conflicting
            if owner is source and _lists(status, tool.name)
        ]
        return replace(status, tools=tools, quarantined=(*status.quarantined, *conflicting))

    async def changes(self) -> AsyncGenerator[None]:
        changed = asyncio.Event()
        watchers = [asyncio.ensure_future(_watch(source, changed)) for source in self.sources]
        try:
            while not all(task.done() for task in watchers):
                await changed.wait()
                changed.clear()
                yield
        finally:
            for task in watchers:
                task.cancel()
            await asyncio.gather(*watchers, return_exceptions=True)

    async def open(self) -> None:
        for source in self.sources:
            if source not in self._open:
                stack = AsyncExitStack()
                await stack.enter_async_context(source)
                self._open[source] = stack

    async def close(self) -> None:
        async with AsyncExitStack() as stack:
            for one in self._open.values():
                stack.push_async_callback(one.aclose)
            self._open = {}

    def hand_over(self, successor: CombinedSources) -> None:
        """Leave the open sources that another one has too to that one, which then closes them."""
        for source in successor.sources:
            if source in self._open:
                successor._open[source] = self._open.pop(source)


def _lists(status: SourceStatus, name: str) -> bool:
    return status.tools is None or name in status.tools


async def _watch(source: Source, changed: asyncio.Event) -> None:
    async for _ in source.changes():
        changed.set()
    # A source that never changes ends at once. Wake the waiting loop, so that it sees whether any watcher is left.
    changed.set()
