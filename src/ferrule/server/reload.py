"""Reload: takes up a changed configuration, tools and MCP servers in a gateway that serves.

Everything new is made and opened first, beside what there is. Then it is exchanged in one step without a wait, so that
each request sees either the old or the new. If anything fails before, what was made is closed again and nothing has
changed. Answers that run keep the engines and the tools that they began with; these are closed when the last of those
answers has ended. Engines and sources whose settings are the same are kept, with their connections.

Must not know where a configuration comes from: `read` and `plan` do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, fields, replace

from ferrule.core.tool import ToolDefinition
from ferrule.engines.engine import Engine
from ferrule.engines.registry import load_engine
from ferrule.errors import DefinitionError, FerruleError
from ferrule.run.approval_policy import ApprovalPolicy
from ferrule.run.hooks import Hook
from ferrule.server.auth.request_limits import RequestLimits
from ferrule.server.config.config import Config, GatewayLimits, ServerConfig
from ferrule.server.engine_probe import EngineProbe
from ferrule.server.gateway import Gateway, ReloadReport
from ferrule.server.hook_names import load_hooks
from ferrule.server.router import Replica, Router
from ferrule.server.secret_mask import mask_text
from ferrule.server.startup import build_router, observe_engines
from ferrule.server.tools.credentials import keep_credentials
from ferrule.server.tools.server_questions import answer_questions
from ferrule.sources.combined_sources import CombinedSources, SourcePlan
from ferrule.sources.search.tool_index import ToolIndex
from ferrule.sources.source import Source

_LIVE = (
    frozenset({"engines", "models", "sources", "openapi", "tools", "tool_search", "keys", "approvals", "quotas"})
    | frozenset({"hosted", "identity", "roles"})
    | frozenset({"tool_choice_policy", "loop_guard", "approval_patience_seconds", "server", "limits"})
)
"""What may change while a gateway serves."""
_LIVE_SERVER = frozenset({"hosts", "origins"})
_FIXED_LIMITS = frozenset(
    {"connections", "header_bytes", "header_seconds", "send_seconds", "body_bytes", "cache_bytes"}
)
"""The limits that the listening socket and the process have had since they began."""
_POLL_SECONDS = 0.2
_ENDLESS = frozenset({"/v1/approvals/events", "/v1/reload"})
"""Requests that need no engine and no tool, and may last longer than every answer."""


@dataclass(slots=True)
class Reloader:
    """Reloads one gateway. `plans` and `sources` are those that it was opened with, in the same order.

    `config` is as it was read; the gateway's own may have paths that only this process has.
    """

    gateway: Gateway
    config: Config
    read: Callable[[], Config]
    """Reads the configuration as it is now. It is called in a thread."""
    plan: Callable[[Config], list[SourcePlan]]
    plans: list[SourcePlan]
    sources: list[Source]
    load: Callable[[str], Engine] = load_engine
    after: Callable[[], None] = lambda: None
    """Called after a reload that a request has asked for: other processes of the gateway follow."""
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _closings: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])

    async def reload_for_request(self) -> ReloadReport:
        report = await self.reload()
        self.after()
        return report

    async def reload(self) -> ReloadReport:
        """Take up the configuration. Raises, and changes nothing, if it is not valid. Either way the log says it."""
        log = self.gateway.telemetry.log
        async with self._lock:
            try:
                report = await self._reload()
            except FerruleError as error:
                log.emit("reload_failed", outcome=error.code, detail=mask_text(error.message))
                raise
            # The tools file and its imports may raise anything.
            except Exception as error:
                log.emit("reload_failed", outcome="bad_configuration", detail=mask_text(_reason(error)))
                raise DefinitionError(
                    f"the configuration cannot be taken up: {_reason(error)}",
                    code="bad_configuration",
                    hint="Nothing was changed. Correct it, and reload again.",
                ) from error
        log.emit("reloaded", changed=list(report.changed))
        return report

    async def close(self) -> None:
        """Close what answers still used."""
        for task in self._closings:
            task.cancel()
        await asyncio.gather(*self._closings, return_exceptions=True)

    async def _reload(self) -> ReloadReport:
        gateway, before = self.gateway, self.config
        config = await asyncio.to_thread(self.read)
        _require_live(before, config)
        hooks = await asyncio.to_thread(load_hooks, config.tools.hooks, is_fresh=True)
        plans = await asyncio.to_thread(self.plan, config)
        if config.uses_tool_search:
            ToolIndex()
        async with AsyncExitStack() as undo:
            known = _unchanged_replicas(gateway.router, before, config)
            router = build_router(config, self.load, known)
            for replica in router.replicas:
                if replica.name not in known:
                    undo.push_async_callback(replica.engine.close)
            found = [(one, self._kept(one)) for one in plans]
            sources = [one.make() if kept is None else kept for one, kept in found]
            combined = CombinedSources(sources)
            # Those that are kept are open, and stay those of the catalog until the exchange.
            fresh = CombinedSources([one for one in sources if one not in self.sources])
            catalog = gateway.tool_catalog
            logins = keep_credentials(config, fresh.sources, gateway.ledger, served=lambda: catalog.source.sources)
            answer_questions(gateway, fresh.sources)
            undo.push_async_callback(fresh.close)
            await fresh.open()
            listed = await combined.tools()
            await gateway.keys.set_config(config)
            undo.pop_all()
            fresh.hand_over(combined)
        gateway.logins = gateway.logins or logins
        old = self._exchange(config, router, hooks, combined, listed)
        self.config, self.plans, self.sources = config, plans, sources
        task = asyncio.ensure_future(self._close_later(old, known))
        self._closings.add(task)
        task.add_done_callback(self._closings.discard)
        return ReloadReport(tuple(_changed(before, config)), tuple(router.models), len(gateway.tool_catalog.tools))

    def _kept(self, plan: SourcePlan) -> Source | None:
        """The source that there is already for a plan."""
        pairs = zip(self.plans, self.sources, strict=True)
        return next((source for before, source in pairs if before.key == plan.key), None)

    def _exchange(
        self,
        config: Config,
        router: Router,
        hooks: tuple[Hook, ...],
        combined: CombinedSources,
        listed: tuple[ToolDefinition, ...],
    ) -> tuple[Router, CombinedSources]:
        """Exchange everything, without a wait in between. Returns what is left to be closed."""
        gateway = self.gateway
        # The ledger has a path of its own where workers share a temporary one.
        own = replace(config, ledger=gateway.config.ledger)
        old_router, gateway.router = gateway.router, router
        gateway.config, gateway.hooks = own, hooks
        gateway.request_limits = RequestLimits(config.limits)
        gateway.engine_probe = EngineProbe.of(config, router)
        observe_engines(gateway.telemetry, config, router)
        old_source = gateway.tool_catalog.replace_source(
            combined, listed, config.tools, ApprovalPolicy(config.approvals), config.sources.mcp_tool_refresh_seconds
        )
        for callback in gateway.on_config:
            callback(own)
        return old_router, old_source

    async def _close_later(self, old: tuple[Router, CombinedSources], known: Iterable[str]) -> None:
        """Close the old engines and sources when everything that began before has ended."""
        (router, source), telemetry = old, self.gateway.telemetry
        answers = set(telemetry.answers)
        requests = {one for one in telemetry.requests if not one.is_socket and one.api not in _ENDLESS}
        replicas = [one for one in router.replicas if one.name not in {*known}]
        try:
            while (
                answers & telemetry.answers
                or requests & telemetry.requests
                or source.in_flight
                or any(one.in_flight for one in replicas)
            ):
                await asyncio.sleep(_POLL_SECONDS)
        finally:
            async with AsyncExitStack() as stack:
                stack.push_async_callback(source.close)
                for replica in replicas:
                    stack.push_async_callback(replica.engine.close)


def _require_live(before: Config, config: Config) -> None:
    """Raise if something has changed that a gateway cannot change while it serves."""
    servers, limits = (before.server, config.server), (before.limits, config.limits)
    fixed = [name for name in _changed(before, config) if name not in _LIVE]
    fixed += [f"server.{name}" for name in _changed(*servers) if name not in _LIVE_SERVER]
    fixed += [f"limits.{name}" for name in _changed(*limits) if name in _FIXED_LIMITS]
    if fixed:
        raise DefinitionError(
            f"{', '.join(fixed)} cannot change while the gateway serves",
            code="restart_needed",
            hint="Nothing was changed. Restart the gateway, or undo this change and reload again.",
        )


def _changed(before: Config | ServerConfig | GatewayLimits, after: object) -> list[str]:
    """The names of the fields that differ."""
    return [one.name for one in fields(before) if getattr(before, one.name) != getattr(after, one.name)]


def _unchanged_replicas(router: Router, before: Config, config: Config) -> dict[str, Replica]:
    """The engines that stay, by name: their settings are the same."""
    old = {one.name: one.use for one in before.engines}
    same = {one.name for one in config.engines if old.get(one.name) == one.use}
    return {one.name: one for one in router.replicas if one.name in same}


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
