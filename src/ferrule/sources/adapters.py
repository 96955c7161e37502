"""Adapters: each wraps a source and changes one thing about it. You can stack them in any order."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import replace
from typing import Any

from ferrule.core.context import CallContext
from ferrule.core.json_text import canonical
from ferrule.core.outcome import Answered, NotDelivered, Outcome
from ferrule.core.tool import ToolDefinition
from ferrule.sources.call_timer import CallTimer
from ferrule.sources.source import Source, run_with_timeout
from ferrule.sources.status import SourceStatus, ToolLoad


class SourceAdapter(Source):
    """Forwards everything to the inner source. Subclasses override what they change."""

    def __init__(self, inner: Source) -> None:
        self.inner = inner
        self.id = inner.id

    async def tools(self) -> tuple[ToolDefinition, ...]:
        return await self.inner.tools()

    async def call(self, name: str, arguments: Mapping[str, Any], context: CallContext) -> Outcome:
        return await self.inner.call(name, arguments, context)

    @property
    def quarantined(self) -> tuple[str, ...]:
        return self.inner.quarantined

    @property
    def notices(self) -> tuple[str, ...]:
        return self.inner.notices

    @property
    def statuses(self) -> tuple[SourceStatus, ...]:
        return self.inner.statuses

    @property
    def loads(self) -> tuple[ToolLoad, ...]:
        return self.inner.loads

    def refusal(self, name: str, context: CallContext) -> NotDelivered | None:
        return self.inner.refusal(name, context)

    async def changes(self) -> AsyncGenerator[None]:
        async for _ in self.inner.changes():
            yield

    async def open(self) -> None:
        await self.inner.open()

    async def close(self) -> None:
        await self.inner.close()


class RenameAdapter(SourceAdapter):
    """Offers the tools under other names. If two tools get the same name, only the first is offered."""

    def __init__(self, inner: Source, rename: Callable[[str], str]) -> None:
        super().__init__(inner)
        self._rename = rename
        self._names: dict[str, str] = {}

    async def tools(self) -> tuple[ToolDefinition, ...]:
        tools = await self.inner.tools()
        self._names = {}
        renamed: list[ToolDefinition] = []
        for tool in tools:
            name = self._rename(tool.name)
            if name not in self._names:
                self._names[name] = tool.name
                renamed.append(replace(tool, name=name))
        return tuple(renamed)

    async def call(self, name: str, arguments: Mapping[str, Any], context: CallContext) -> Outcome:
        if not self._names:
            await self.tools()
        inner_name = self._names.get(name)
        if inner_name is None:
            return NotDelivered(f"there is no tool {name!r}", code="bad_request")
        return await self.inner.call(inner_name, arguments, context)

    def refusal(self, name: str, context: CallContext) -> NotDelivered | None:
        return self.inner.refusal(self._names.get(name, name), context)

    @property
    def statuses(self) -> tuple[SourceStatus, ...]:
        return tuple(map(self._rename_status, self.inner.statuses))

    def _rename_status(self, status: SourceStatus) -> SourceStatus:
        outer_names = {inner_name: name for name, inner_name in self._names.items()}
        tools = (
            None if status.tools is None else tuple(outer_names[name] for name in status.tools if name in outer_names)
        )
        quarantined = tuple(
            replace(quarantined, tool=self._rename(quarantined.tool)) for quarantined in status.quarantined
        )
        return replace(status, tools=tools, quarantined=quarantined)


class PrefixAdapter(RenameAdapter):
    """Offers the tools as `prefix_tool`.

    A name is mapped back by a table and never by splitting it, so two names cannot be confused.
    """

    def __init__(self, inner: Source, prefix: str = "") -> None:
        first = prefix or inner.id
        super().__init__(inner, lambda name: f"{first}_{name}")


class FilterAdapter(SourceAdapter):
    """Offers only some of the tools. The others cannot be called either."""

    def __init__(self, inner: Source, include: Callable[[ToolDefinition], bool]) -> None:
        super().__init__(inner)
        self._include = include

    async def tools(self) -> tuple[ToolDefinition, ...]:
        return tuple(tool for tool in await self.inner.tools() if self._include(tool))

    async def call(self, name: str, arguments: Mapping[str, Any], context: CallContext) -> Outcome:
        if all(tool.name != name for tool in await self.tools()):
            return NotDelivered(f"there is no tool {name!r}", code="bad_request")
        return await self.inner.call(name, arguments, context)


class TimeoutAdapter(SourceAdapter):
    """Limits each call to a number of seconds.

    A tool with side effects that runs out of time may have taken effect, so the outcome is `Unknown`.
    """

    def __init__(self, inner: Source, seconds: float) -> None:
        super().__init__(inner)
        self._seconds = seconds

    async def call(self, name: str, arguments: Mapping[str, Any], context: CallContext) -> Outcome:
        has_side_effects = await _has_side_effects(self.inner, name)
        timer = CallTimer(self._seconds, deadline=context.deadline, outer=context.pause, outer_renew=context.renew)
        work = self.inner.call(name, arguments, replace(context, pause=timer.pause, renew=timer.renew))
        return await run_with_timeout(self._seconds, work, has_side_effects=has_side_effects, timer=timer)


class ApprovalAdapter(SourceAdapter):
    """Marks tools as having side effects, so that they need approval even if they claim otherwise."""

    def __init__(self, inner: Source, needs_approval: Callable[[ToolDefinition], bool] = lambda tool: True) -> None:
        super().__init__(inner)
        self._needs_approval = needs_approval

    async def tools(self) -> tuple[ToolDefinition, ...]:
        tools = await self.inner.tools()
        return tuple(replace(tool, side_effects=True) if self._needs_approval(tool) else tool for tool in tools)


class CacheAdapter(SourceAdapter):
    """Caches the answers of tools without side effects, per conversation."""

    def __init__(self, inner: Source, max_entries: int = 1_000) -> None:
        super().__init__(inner)
        self._max_entries = max_entries
        self._answers: dict[tuple[str, str, str], Outcome] = {}

    async def call(self, name: str, arguments: Mapping[str, Any], context: CallContext) -> Outcome:
        key = (context.conversation, name, canonical(dict(arguments)))
        cached = self._answers.get(key)
        if cached is not None:
            return cached
        outcome = await self.inner.call(name, arguments, context)
        is_good = isinstance(outcome, Answered) and not outcome.is_error
        if is_good and context.conversation and not await _has_side_effects(self.inner, name):
            self._answers[key] = outcome
            while len(self._answers) > self._max_entries:
                del self._answers[next(iter(self._answers))]
        return outcome


async def _has_side_effects(source: Source, name: str) -> bool:
    return any(tool.side_effects for tool in await source.tools() if tool.name == name)
