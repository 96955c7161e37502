"""Toolbox: the gateway's own tools, listed once and not for every request; read again on notice and every so often."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ferrule.core.context import CallContext, Principal
from ferrule.core.outcome import Answered, NotDelivered, Outcome, Unknown
from ferrule.core.tool import ToolDefinition
from ferrule.errors import FerruleError, SchemaError
from ferrule.run.executor import ToolExecutor
from ferrule.run.tool_settings import ToolSettings
from ferrule.schema.admission import admit
from ferrule.sources.combined_sources import Joined
from ferrule.sources.source import Source
from ferrule.sources.status import Described, Quarantined, Standing

Ran = Callable[[str, float, str], None]
"""Is told of each time that a tool was called: which, for how many seconds, and a word for what came of it."""


def _unheard(*_: object) -> None:
    """Nobody listens."""


@dataclass(slots=True)
class Toolbox:
    """Open it before use. `notices` are for people: tools that are not offered, and why."""

    source: Joined
    settings: ToolSettings
    refresh_seconds: float = 30.0
    notices: tuple[str, ...] = ()
    held_back: Callable[[str], None] = _unheard
    """Is told the name of each tool that is there and not offered, once."""
    ran: Ran = _unheard
    tools: dict[str, ToolDefinition] = field(default_factory=dict[str, ToolDefinition])
    _refused: dict[str, Quarantined] = field(default_factory=dict[str, Quarantined])
    _held: set[str] = field(default_factory=set[str])
    _tasks: list[asyncio.Task[None]] = field(default_factory=list[asyncio.Task[None]])

    async def open(self) -> None:
        await self.source.open()
        await self.refresh()
        self._tasks = [asyncio.ensure_future(self._on_notice()), asyncio.ensure_future(self._now_and_then())]

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.source.close()

    async def refresh(self) -> None:
        found: dict[str, ToolDefinition] = {}
        refused: dict[str, Quarantined] = {}
        notices: list[str] = []
        listed = await self.source.tools()
        held = set(self.source.held_back)
        for tool in listed:
            try:
                found[tool.name] = replace(tool, parameters=admit(tool.parameters))
            except SchemaError as refusal:
                why = f"is not offered: {refusal.message}"
                notices.append(f"{tool.name} {why}")
                refused[tool.name] = Quarantined(tool.name, why, Described.of(tool))
                held.add(tool.name)
        wanted = self.settings.tools_default_set
        notices += [f"{name} is not there" for name in wanted if name not in found]
        self.notices = (*self.source.notices, *notices)
        self._refused = refused
        is_on = self.settings.tools_enabled
        self.tools = {name: tool for name, tool in found.items() if is_on and (not wanted or name in wanted)}
        for name in sorted(held - self._held):
            self.held_back(name)
        self._held = held

    @property
    def standings(self) -> tuple[Standing, ...]:
        """How it stands with each source. Its tools are those that are offered here."""
        return tuple(map(self._standing, self.source.standings))

    def _standing(self, one: Standing) -> Standing:
        names = one.tools or ()
        refused = (self._refused[name] for name in names if name in self._refused)
        tools = tuple(name for name in names if name in self.tools)
        return replace(one, tools=tools, quarantined=(*one.quarantined, *refused))

    def offered(self, principal: Principal, names: tuple[str, ...] | None = None) -> tuple[ToolDefinition, ...]:
        """What this principal may use, of these names."""
        return tuple(
            tool
            for tool in self.tools.values()
            if (names is None or tool.name in names) and principal.may_use(tool.bound_capability or tool.name)
        )

    def executor(self, principal: Principal, names: tuple[str, ...] | None = None) -> ToolExecutor:
        view = _View(self.source, self.offered(principal, names), self.ran)
        return replace(self.settings, tools_default_set=()).executor(view)

    async def _on_notice(self) -> None:
        async for _ in self.source.changes():
            await self._refreshed()

    async def _now_and_then(self) -> None:
        while True:
            await asyncio.sleep(self.refresh_seconds)
            await self._refreshed()

    async def _refreshed(self) -> None:
        try:
            await self.refresh()
        except FerruleError as failure:
            # What was listed last stays; calls find out for themselves.
            told = f"tools could not be listed: {failure.message}"
            self.notices = (*(one for one in self.notices if one != told), told)


class _View(Source):
    """Some of the tools, for one principal and one turn."""

    def __init__(self, source: Source, tools: tuple[ToolDefinition, ...], ran: Ran) -> None:
        self.id = source.id
        self._ran = ran
        self._source = source
        self._tools = tools

    async def tools(self) -> tuple[ToolDefinition, ...]:
        return self._tools

    async def call(self, name: str, arguments: Mapping[str, Any], context: CallContext) -> Outcome:
        began, word = time.monotonic(), "stopped"
        try:
            outcome = await self._source.call(name, arguments, context)
            word = _word_for(outcome)
            return outcome
        finally:
            self._ran(name, time.monotonic() - began, word)


def _word_for(outcome: Outcome) -> str:
    match outcome:
        case Answered(is_error=is_error):
            return "error" if is_error else "ok"
        case NotDelivered():
            return "not_delivered"
        case Unknown():
            return "unknown"
