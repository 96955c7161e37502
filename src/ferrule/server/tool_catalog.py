"""ToolCatalog: the gateway's own tools.

The list is read once and not for every request. It is refreshed when a source reports a change, and periodically.
"""

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
from ferrule.run.approval_policy import ApprovalPolicy
from ferrule.run.executor import ToolExecutor, ToolSettings
from ferrule.schema.admission_cache import admit_tool
from ferrule.sources.combined_sources import CombinedSources
from ferrule.sources.source import Source
from ferrule.sources.status import QuarantinedTool, SourceStatus, ToolSnapshot

RunListener = Callable[[str, float, str], None]
"""Called after each tool call with the tool's name, the seconds it took, and an outcome label."""


_MAX_OFFERS = 256


def _ignore(*_: object) -> None:
    """The default: no listener."""


@dataclass(slots=True)
class ToolCatalog:
    """The tools of all sources. Open it before use. `notices` explain which tools are not offered, and why."""

    source: CombinedSources
    settings: ToolSettings
    refresh_seconds: float = 30.0
    approval_policy: ApprovalPolicy = field(default_factory=ApprovalPolicy)
    notices: tuple[str, ...] = ()
    on_quarantine: Callable[[str], None] = _ignore
    """Called once with the name of each tool that is quarantined."""
    on_run: RunListener = _ignore
    tools: dict[str, ToolDefinition] = field(default_factory=dict[str, ToolDefinition])
    _rejections: dict[str, QuarantinedTool] = field(default_factory=dict[str, QuarantinedTool])
    _quarantined_names: set[str] = field(default_factory=set[str])
    _admitted: dict[str, tuple[ToolDefinition, ToolDefinition]] = field(
        default_factory=dict[str, tuple[ToolDefinition, ToolDefinition]]
    )
    """The tools as their source lists them and as they were admitted, by name."""
    _offers: dict[tuple[frozenset[str] | None, tuple[str, ...] | None], tuple[ToolDefinition, ...]] = field(
        default_factory=dict[tuple[frozenset[str] | None, tuple[str, ...] | None], tuple[ToolDefinition, ...]]
    )
    """What `tools_for` has returned for these tools, by scopes and names."""
    _offers_of: dict[str, ToolDefinition] | None = None
    _tasks: list[asyncio.Task[None]] = field(default_factory=list[asyncio.Task[None]])

    async def open(self) -> None:
        await self.source.open()
        await self.refresh()
        self._tasks = [
            asyncio.ensure_future(self._refresh_on_change()),
            asyncio.ensure_future(self._refresh_periodically()),
        ]

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.source.close()

    async def refresh(self) -> None:
        definitions: dict[str, ToolDefinition] = {}
        rejections: dict[str, QuarantinedTool] = {}
        notices: list[str] = []
        source_tools = await self.source.tools()
        quarantined_names = set(self.source.quarantined)
        for tool in source_tools:
            try:
                definitions[tool.name] = self._admit(tool)
            except SchemaError as error:
                reason = f"is not offered: {error.message}"
                notices.append(f"{tool.name} {reason}")
                rejections[tool.name] = QuarantinedTool(tool.name, reason, ToolSnapshot.of(tool))
                quarantined_names.add(tool.name)
        default_set = self.settings.tools_default_set
        notices += [f"{name} does not exist" for name in default_set if name not in definitions]
        self.notices = (*self.source.notices, *notices)
        self._rejections = rejections
        is_enabled = self.settings.tools_enabled
        self._admitted = {
            tool.name: (tool, definitions[tool.name]) for tool in source_tools if tool.name in definitions
        }
        self.tools = {
            name: tool for name, tool in definitions.items() if is_enabled and (not default_set or name in default_set)
        }
        # Report only new ones: a refresh runs every few seconds.
        for name in sorted(quarantined_names - self._quarantined_names):
            self.on_quarantine(name)
        self._quarantined_names = quarantined_names

    def _admit(self, tool: ToolDefinition) -> ToolDefinition:
        """Admit a tool. An unchanged tool stays the same object, so that caches by it stay valid."""
        earlier = self._admitted.get(tool.name)
        return earlier[1] if earlier is not None and earlier[0] == tool else admit_tool(tool)

    @property
    def statuses(self) -> tuple[SourceStatus, ...]:
        """The status of each source. Its tools are those that are offered here."""
        return tuple(map(self._status_of, self.source.statuses))

    def _status_of(self, status: SourceStatus) -> SourceStatus:
        names = status.tools or ()
        rejections = (self._rejections[name] for name in names if name in self._rejections)
        tools = tuple(name for name in names if name in self.tools)
        return replace(status, tools=tools, quarantined=(*status.quarantined, *rejections))

    def tools_for(self, principal: Principal, names: tuple[str, ...] | None = None) -> tuple[ToolDefinition, ...]:
        """The tools that a principal may use, restricted to `names` if given."""
        if self._offers_of is not self.tools:
            self._offers, self._offers_of = {}, self.tools
        key = (principal.scopes, names)
        offer = self._offers.get(key)
        if offer is None:
            offer = tuple(
                tool
                for tool in self.tools.values()
                if (names is None or tool.name in names) and principal.may_use(tool.bound_capability or tool.name)
            )
            if len(self._offers) >= _MAX_OFFERS:
                self._offers.clear()
            self._offers[key] = offer
        return offer

    def executor(self, principal: Principal, names: tuple[str, ...] | None = None) -> ToolExecutor:
        view = _View(self.source, self.tools_for(principal, names), self.on_run)
        executor = replace(self.settings, tools_default_set=()).executor(view)
        executor.approval_policy = self.approval_policy
        return executor

    async def _refresh_on_change(self) -> None:
        async for _ in self.source.changes():
            await self._try_refresh()

    async def _refresh_periodically(self) -> None:
        while True:
            await asyncio.sleep(self.refresh_seconds)
            await self._try_refresh()

    async def _try_refresh(self) -> None:
        try:
            await self.refresh()
        except FerruleError as error:
            # Keep the last list. A call to a tool that is gone reports its own error.
            notice = f"tools could not be listed: {error.message}"
            self.notices = (*(one for one in self.notices if one != notice), notice)


class _View(Source):
    """The tools that one principal may use in one turn."""

    def __init__(self, source: Source, tools: tuple[ToolDefinition, ...], on_run: RunListener) -> None:
        self.id = source.id
        self._on_run = on_run
        self._source = source
        self._tools = tools

    async def tools(self) -> tuple[ToolDefinition, ...]:
        return self._tools

    async def call(self, name: str, arguments: Mapping[str, Any], context: CallContext) -> Outcome:
        started_at, label = time.monotonic(), "stopped"
        try:
            outcome = await self._source.call(name, arguments, context)
            label = _outcome_label(outcome)
            return outcome
        finally:
            self._on_run(name, time.monotonic() - started_at, label)


def _outcome_label(outcome: Outcome) -> str:
    match outcome:
        case Answered(is_error=is_error):
            return "error" if is_error else "ok"
        case NotDelivered():
            return "not_delivered"
        case Unknown():
            return "unknown"
