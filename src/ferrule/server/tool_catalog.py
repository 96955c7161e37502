"""ToolCatalog: the gateway's own tools.

The list is read once and not for every request. It is refreshed when a source reports a change, and periodically.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
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
from ferrule.sources.search.tool_index import ToolIndex, ToolMatch
from ferrule.sources.source import Source
from ferrule.sources.status import QuarantinedTool, SourceStatus, ToolSnapshot

RunListener = Callable[[str, float, str], None]
"""Called after each tool call with the tool's name, the seconds it took, and an outcome label."""


_MAX_OFFERS = 256


def _ignore(*_: object) -> None:
    """The default: no listener."""


async def _admit_all(principal: Principal, tool: ToolDefinition) -> Any:
    """The default: no quotas."""
    return ()


CallAdmission = Callable[[Principal, ToolDefinition], Awaitable[Any]]


def _no_prior(tenant: str) -> Mapping[str, float]:
    return {}


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
    admit_call: CallAdmission = _admit_all
    """Counts a call before it begins. Raises if a quota is used up. Returns what it has counted."""
    give_back: Callable[[Any], None] = _ignore
    """Takes back what was counted for a call that did not begin."""
    prior_of: Callable[[str], Mapping[str, float]] = _no_prior
    """Returns what usage says about the tools of a tenant, for searches: see `sources.search.usage_prior`."""
    tools: dict[str, ToolDefinition] = field(default_factory=dict[str, ToolDefinition])
    _rejections: dict[str, QuarantinedTool] = field(default_factory=dict[str, QuarantinedTool])
    _quarantined_names: set[str] = field(default_factory=set[str])
    _admitted: dict[str, tuple[ToolDefinition, ToolDefinition]] = field(
        default_factory=dict[str, tuple[ToolDefinition, ToolDefinition]]
    )
    """The tools as their source lists them and as they were admitted, by name."""
    _listed: tuple[dict[str, Source], tuple[tuple[str, tuple[str, ...] | None], ...]] | None = None
    """Which source has which tool, as of the last change."""
    _offers: dict[tuple[frozenset[str] | None, tuple[str, ...] | None], tuple[ToolDefinition, ...]] = field(
        default_factory=dict[tuple[frozenset[str] | None, tuple[str, ...] | None], tuple[ToolDefinition, ...]]
    )
    """What `tools_for` has returned for these tools, by scopes and names."""
    _offers_of: dict[str, ToolDefinition] | None = None
    _sources: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    """The name and the kind of the source of each tool, for these tools."""
    _sources_of: dict[str, ToolDefinition] | None = None
    _index: ToolIndex | None = None
    _indexed: dict[str, ToolDefinition] | None = None
    """The tools that the index holds: those of `tools` when it was last updated."""
    _index_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _tasks: list[asyncio.Task[None]] = field(default_factory=list[asyncio.Task[None]])

    async def open(self) -> None:
        await self.source.open()
        await self.refresh()
        self._follow()

    def _follow(self) -> None:
        self._tasks = [
            asyncio.ensure_future(self._refresh_on_change()),
            asyncio.ensure_future(self._refresh_periodically()),
        ]

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.source.close()

    def replace_source(
        self,
        source: CombinedSources,
        listed: tuple[ToolDefinition, ...],
        settings: ToolSettings,
        approval_policy: ApprovalPolicy,
        refresh_seconds: float,
    ) -> CombinedSources:
        """Take other sources, which are open and have just listed these tools. Returns those before.

        An answer that runs keeps what it began with.
        """
        before, self.source = self.source, source
        before.hand_over(source)
        self.settings, self.approval_policy, self.refresh_seconds = settings, approval_policy, refresh_seconds
        self._take(listed)
        # The task that follows changes follows those of the sources before.
        for task in self._tasks:
            task.cancel()
        self._follow()
        return before

    async def refresh(self) -> None:
        source = self.source
        listed = await source.tools()
        if source is self.source:
            self._take(listed)

    def _take(self, source_tools: tuple[ToolDefinition, ...]) -> None:
        definitions: dict[str, ToolDefinition] = {}
        rejections: dict[str, QuarantinedTool] = {}
        notices: list[str] = []
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
        offered = {
            name: tool for name, tool in definitions.items() if is_enabled and (not default_set or name in default_set)
        }
        tools = {name: offered[name] for name in _stable_order(self.tools, offered)}
        listed = (dict(self.source.owners), tuple((one.name, one.tools) for one in self.source.statuses))
        # What is computed of the tools is kept as long as this is the same object, and nearly every refresh finds what
        # the last one found.
        if not (listed == self._listed and _are_same(tools, self.tools)):
            self.tools, self._listed = tools, listed
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
                if (names is None or tool.name in names) and self._may_use(principal, tool)
            )
            if len(self._offers) >= _MAX_OFFERS:
                self._offers.clear()
            self._offers[key] = offer
        return offer

    def _may_use(self, principal: Principal, tool: ToolDefinition) -> bool:
        is_allowed = principal.may_use(tool.bound_capability or tool.name)
        return is_allowed and principal.may_use_source(self.source_of(tool.name))

    async def search(self, principal: Principal, text: str, limit: int) -> tuple[ToolMatch, ...]:
        """Find the tools that fit a text, among those that a principal may use, the best first."""
        index = await self._updated_index()
        prior = self.prior_of(principal.tenant)

        def is_allowed(tool: ToolDefinition) -> bool:
            return self._may_use(principal, tool)

        return await asyncio.to_thread(index.search, text, limit, is_allowed=is_allowed, prior=prior)

    async def _updated_index(self) -> ToolIndex:
        async with self._index_lock:
            if self._index is None:
                self._index = ToolIndex()
            if self._indexed is not self.tools:
                # In a thread: 100,000 new tools take seconds.
                tools = self.tools
                await asyncio.to_thread(self._index.update, tools.values())
                self._indexed = tools
            return self._index

    async def find(
        self, text: str, limit: int, tools: Mapping[str, ToolDefinition], *, tenant: str | None = None
    ) -> tuple[str, ...]:
        """Find the names of the tools that fit a text, among these tools of the catalog.

        Without a tenant usage does not count: it changes, and what a prompt lists follows from its conversation alone.
        """
        index = await self._updated_index()
        prior = None if tenant is None else self.prior_of(tenant)

        def is_allowed(tool: ToolDefinition) -> bool:
            return tool.name in tools

        matches = await asyncio.to_thread(index.search, text, limit, is_allowed=is_allowed, prior=prior)
        return tuple(match.tool.name for match in matches)

    def source_of(self, name: str) -> str:
        """The name of the source that has a tool; empty if it does not say."""
        return self._source_of(name)[0]

    def is_mcp_tool(self, name: str) -> bool:
        """Whether an MCP server runs a tool."""
        return self._source_of(name)[1] == "mcp"

    def _source_of(self, name: str) -> tuple[str, str]:
        """The name and the kind of the source that has a tool."""
        if self._sources_of is not self.tools:
            self._sources = {
                one: (status.name, status.kind) for status in self.source.statuses for one in status.tools or ()
            }
            self._sources_of = self.tools
        return self._sources.get(name, ("", ""))

    def executor(self, principal: Principal, names: tuple[str, ...] | None = None) -> ToolExecutor:
        view = _View(self, self.source, self.tools_for(principal, names))
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


def _stable_order(before: Iterable[str], names: Iterable[str]) -> list[str]:
    """Return the names in an order that changes as little as possible: known ones as before, then new ones by name.

    Tools stand at the beginning of a prompt, and an engine reads everything behind a change again. Sources list their
    tools in the order in which servers and workers happen to answer.
    """
    new = set(names)
    known = [name for name in before if name in new]
    return [*known, *sorted(new.difference(known))]


def _are_same(tools: Mapping[str, ToolDefinition], others: Mapping[str, ToolDefinition]) -> bool:
    """Whether two catalogs hold the very same tools in the same order."""
    return len(tools) == len(others) and all(
        name == other and tool is same
        for (name, tool), (other, same) in zip(tools.items(), others.items(), strict=True)
    )


class _View(Source):
    """The tools that one principal may use in one turn."""

    def __init__(self, catalog: ToolCatalog, source: Source, tools: tuple[ToolDefinition, ...]) -> None:
        self.id = source.id
        self._catalog = catalog
        self._source = source
        self._tools = tools

    async def tools(self) -> tuple[ToolDefinition, ...]:
        return self._tools

    async def call(self, name: str, arguments: Mapping[str, Any], context: CallContext) -> Outcome:
        catalog = self._catalog
        tool = catalog.tools.get(name) or next((one for one in self._tools if one.name == name), None)
        try:
            counted = await catalog.admit_call(context.principal, tool) if tool is not None else ()
        except FerruleError as refusal:
            return Answered(f"{refusal.code}: {refusal.message}", is_error=True, code=refusal.code)
        started_at, label = time.monotonic(), "stopped"
        try:
            outcome = await self._source.call(name, arguments, context)
            label = _outcome_label(outcome)
            if counted and isinstance(outcome, NotDelivered):
                catalog.give_back(counted)
            return outcome
        finally:
            catalog.on_run(name, time.monotonic() - started_at, label)


def _outcome_label(outcome: Outcome) -> str:
    match outcome:
        case Answered(is_error=is_error):
            return "error" if is_error else "ok"
        case NotDelivered():
            return "not_delivered"
        case Unknown():
            return "unknown"
