"""Wrappers: a source seen through a pane that changes one thing about it. They stack in any order."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import replace
from typing import Any

from ferrule.core.context import CallContext
from ferrule.core.json_text import canonical
from ferrule.core.outcome import Answered, NotDelivered, Outcome
from ferrule.core.tool import ToolDefinition
from ferrule.sources.source import Source, within
from ferrule.sources.status import Standing


class Wrapped(Source):
    """Passes everything on. What a pane changes is in the class below it."""

    def __init__(self, inner: Source) -> None:
        self.inner = inner
        self.id = inner.id

    async def tools(self) -> tuple[ToolDefinition, ...]:
        return await self.inner.tools()

    async def call(self, name: str, arguments: Mapping[str, Any], context: CallContext) -> Outcome:
        return await self.inner.call(name, arguments, context)

    @property
    def held_back(self) -> tuple[str, ...]:
        return self.inner.held_back

    @property
    def notices(self) -> tuple[str, ...]:
        return self.inner.notices

    @property
    def standings(self) -> tuple[Standing, ...]:
        return self.inner.standings

    async def changes(self) -> AsyncGenerator[None]:
        async for _ in self.inner.changes():
            yield

    async def open(self) -> None:
        await self.inner.open()

    async def close(self) -> None:
        await self.inner.close()


class Renamed(Wrapped):
    """Tools under other names. A name that would stand for two tools is refused by the one that comes second."""

    def __init__(self, inner: Source, rename: Callable[[str], str]) -> None:
        super().__init__(inner)
        self._rename = rename
        self._names: dict[str, str] = {}

    async def tools(self) -> tuple[ToolDefinition, ...]:
        found = await self.inner.tools()
        self._names = {}
        shown: list[ToolDefinition] = []
        for tool in found:
            name = self._rename(tool.name)
            if name not in self._names:
                self._names[name] = tool.name
                shown.append(replace(tool, name=name))
        return tuple(shown)

    async def call(self, name: str, arguments: Mapping[str, Any], context: CallContext) -> Outcome:
        if not self._names:
            await self.tools()
        known = self._names.get(name)
        if known is None:
            return NotDelivered(f"there is no tool {name!r}", code="bad_request")
        return await self.inner.call(known, arguments, context)

    @property
    def standings(self) -> tuple[Standing, ...]:
        return tuple(map(self._renamed, self.inner.standings))

    def _renamed(self, one: Standing) -> Standing:
        shown = {known: name for name, known in self._names.items()}
        tools = None if one.tools is None else tuple(shown[name] for name in one.tools if name in shown)
        held = tuple(replace(held, tool=self._rename(held.tool)) for held in one.quarantined)
        return replace(one, tools=tools, quarantined=held)


class Prefixed(Renamed):
    """Tools as `server_tool`. The way back is by table and never by cutting, so no two names can be taken for one."""

    def __init__(self, inner: Source, prefix: str = "") -> None:
        first = prefix or inner.id
        super().__init__(inner, lambda name: f"{first}_{name}")


class Filtered(Wrapped):
    """Only some of the tools. What is not shown cannot be called either."""

    def __init__(self, inner: Source, keeps: Callable[[ToolDefinition], bool]) -> None:
        super().__init__(inner)
        self._keeps = keeps

    async def tools(self) -> tuple[ToolDefinition, ...]:
        return tuple(tool for tool in await self.inner.tools() if self._keeps(tool))

    async def call(self, name: str, arguments: Mapping[str, Any], context: CallContext) -> Outcome:
        if all(tool.name != name for tool in await self.tools()):
            return NotDelivered(f"there is no tool {name!r}", code="bad_request")
        return await self.inner.call(name, arguments, context)


class Timed(Wrapped):
    """A limit in seconds. A tool that changes the world and ran out of time may have changed it: that is unknown."""

    def __init__(self, inner: Source, seconds: float) -> None:
        super().__init__(inner)
        self._seconds = seconds

    async def call(self, name: str, arguments: Mapping[str, Any], context: CallContext) -> Outcome:
        changes = await _changes_the_world(self.inner, name)
        return await within(self._seconds, self.inner.call(name, arguments, context), changes_the_world=changes)


class Confirmed(Wrapped):
    """Tools that need leave before they run, whatever they say of themselves."""

    def __init__(self, inner: Source, needs_leave: Callable[[ToolDefinition], bool] = lambda tool: True) -> None:
        super().__init__(inner)
        self._needs_leave = needs_leave

    async def tools(self) -> tuple[ToolDefinition, ...]:
        found = await self.inner.tools()
        return tuple(replace(tool, side_effects=True) if self._needs_leave(tool) else tool for tool in found)


class Remembered(Wrapped):
    """Answers of tools that change nothing, remembered within a conversation: the same question is not asked twice."""

    def __init__(self, inner: Source, most: int = 1_000) -> None:
        super().__init__(inner)
        self._most = most
        self._answers: dict[tuple[str, str, str], Outcome] = {}

    async def call(self, name: str, arguments: Mapping[str, Any], context: CallContext) -> Outcome:
        key = (context.conversation, name, canonical(dict(arguments)))
        known = self._answers.get(key)
        if known is not None:
            return known
        outcome = await self.inner.call(name, arguments, context)
        is_good = isinstance(outcome, Answered) and not outcome.is_error
        if is_good and context.conversation and not await _changes_the_world(self.inner, name):
            self._answers[key] = outcome
            while len(self._answers) > self._most:
                del self._answers[next(iter(self._answers))]
        return outcome


async def _changes_the_world(source: Source, name: str) -> bool:
    return any(tool.side_effects for tool in await source.tools() if tool.name == name)
