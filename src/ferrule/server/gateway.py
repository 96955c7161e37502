"""Gateway: the engines, tools and ledger that all APIs share. Knows neither HTTP nor dialects."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from functools import partial
from glob import escape

from ferrule.core.context import Principal
from ferrule.core.request import ToolCallRequest
from ferrule.core.tool import ToolDefinition
from ferrule.core.tool_search import DeclaredSearch
from ferrule.dialects.engine_options import sort_options
from ferrule.engines.engine import Engine
from ferrule.errors import AuthorityError
from ferrule.run.deferring_engine import DeferralCache, DeferringEngine, SearchMemory
from ferrule.run.hooks import Hook
from ferrule.run.ledger.ledger import Ledger
from ferrule.server.auth.key_store import KeyStore
from ferrule.server.auth.request_limits import RequestLimits
from ferrule.server.config.config import Config
from ferrule.server.engine_probe import EngineProbe
from ferrule.server.observability.metrics import ToolUsageCounter
from ferrule.server.observability.telemetry import Telemetry
from ferrule.server.observability.trace_recorder import TraceRecorder
from ferrule.server.quotas.quotas import Quotas
from ferrule.server.router import Replica, RoutedEngine, Router
from ferrule.server.tool_catalog import ToolCatalog
from ferrule.server.tools.logins import Logins
from ferrule.sources.search.tool_finder import ToolFinder
from ferrule.sources.search.tool_index import can_search
from ferrule.sources.search.tool_patterns import find_by_pattern


@dataclass(frozen=True, slots=True)
class ReloadReport:
    """What a reload has changed: the tables of the configuration, and the models and tools that there are now."""

    changed: tuple[str, ...]
    models: tuple[str, ...]
    tools: int


@dataclass(slots=True)
class Gateway:
    """Holds everything an open gateway needs. `server.startup.open_gateway` creates it."""

    config: Config
    router: Router
    tool_catalog: ToolCatalog
    ledger: Ledger
    telemetry: Telemetry = field(default_factory=Telemetry)
    hooks: tuple[Hook, ...] = ()
    """Run around the calls that the gateway runs."""
    shutdown_callbacks: list[Callable[[], Awaitable[None]]] = field(default_factory=list[Callable[[], Awaitable[None]]])
    """Called before engines, tools and ledger are closed."""
    on_config: list[Callable[[Config], None]] = field(default_factory=list[Callable[[Config], None]])
    """Called with another configuration when it is taken up: see `server.reload`."""
    reload: Callable[[], Awaitable[ReloadReport]] | None = None
    """Takes up the configuration as it is now; None if the gateway was made by a program."""

    keys: KeyStore = field(init=False)
    logins: Logins | None = None
    """What people sign in to MCP servers with; None if the ledger does not keep tokens."""
    quotas: Quotas = field(init=False)
    request_limits: RequestLimits = field(init=False)
    tool_usage: ToolUsageCounter = field(init=False)
    engine_probe: EngineProbe = field(init=False)
    traces: TraceRecorder = field(init=False)
    tool_finder: ToolFinder = field(default_factory=ToolFinder)
    search_memory: SearchMemory = field(default_factory=SearchMemory)
    deferrals: DeferralCache = field(default_factory=DeferralCache)

    def __post_init__(self) -> None:
        self.keys = KeyStore(self.config, self.ledger, self.telemetry)
        telemetry = self.telemetry
        self.quotas = Quotas(self.config, telemetry.record_quota_refusal, telemetry.record_quota_store_failure)
        self.on_config.append(self.quotas.set_config)
        self.tool_catalog.admit_call, self.tool_catalog.give_back = self.quotas.admit_call, self.quotas.give_back
        self.request_limits = RequestLimits(self.config.limits)
        self.tool_usage = ToolUsageCounter(self.telemetry.counts, lambda: self.tool_catalog.tools)
        self.engine_probe = EngineProbe.of(self.config, self.router)
        self.traces = TraceRecorder(self.ledger, self.config.traces, self.telemetry)

    async def stop(self) -> None:
        while self.shutdown_callbacks:
            await self.shutdown_callbacks.pop()()

    def is_stopping(self) -> bool:
        """Whether the calls that are cancelled now are resumed by another process: they are in a ledger that lasts."""
        return self.telemetry.drain.has_begun and bool(self.config.ledger)

    def has_tools(self, principal: Principal) -> bool:
        return bool(self.tool_catalog.tools_for(principal))

    def sends_live_arguments(self, principal: Principal) -> bool:
        return any(key.live_arguments for key in self.keys.of_principal(principal))

    def engine(self, model: str | None, principal: Principal) -> RoutedEngine:
        """Return the engine of a model. Raises if there is no such model, or if the principal may not use it."""
        engine = self.router.engine(model)
        if not principal.may_use(f"model:{engine.model}"):
            raise AuthorityError(
                f"{principal.name} may not use the model {engine.model}", hint="Use a key that lists it in models."
            )
        return engine

    def sort_options(self, request: ToolCallRequest) -> ToolCallRequest:
        """Keep the options that the request's engine has, and report the others as ignored."""
        if not request.engine_options:
            return request
        sorted_options = sort_options(
            request.engine_options, request.ignored, self.router.engine(request.model).traits.options
        )
        return replace(request, engine_options=sorted_options.sent, ignored=sorted_options.ignored)

    def without_missing_search(self, request: ToolCallRequest) -> ToolCallRequest:
        """Offer all tools, and say so, if the client declared a search whose package is not installed."""
        declared = request.tool_search
        if declared is None or declared.takes_pattern or can_search():
            return request
        if self.router.engine(request.model).traits.tool_search:
            return request
        return replace(request, tool_search=None, ignored=(*request.ignored, f"tools[]={declared.name}"))

    def engines(self, principal: Principal) -> list[tuple[str, Replica]]:
        """The engines of all models that the principal may use, each with the name of its model."""
        models = [model for name, model in self.router.models.items() if principal.may_use(f"model:{name}")]
        return [(model.model, replica) for model in models for replica in model.replicas]

    async def count_tokens(self, request: ToolCallRequest, principal: Principal) -> int:
        """Count the tokens of a request's prompt."""
        engine = self.engine(request.model, principal)
        await self.request_limits.check(request, self.may_defer(request))
        return await self.with_tool_search(engine, principal, declared=request.tool_search).count_tokens(request)

    def may_defer(self, request: ToolCallRequest) -> bool:
        """Whether tools of a request may be deferred, so that no prompt lists all of them."""
        engine = self.router.engine(request.model)
        return request.tool_search is not None or self.config.tool_search_of(engine.model).above_tokens > 0

    def with_tool_search(
        self,
        engine: RoutedEngine,
        principal: Principal,
        *,
        has_own_tools: bool = False,
        client_tools: tuple[ToolDefinition, ...] = (),
        declared: DeclaredSearch | None = None,
    ) -> Engine:
        """Return the engine, behind a search where its settings ask for one.

        `has_own_tools`: the tools are the gateway's, and its conversations keep the searches among their messages. Of a
        client that brings its tools nothing is kept but in memory, for that principal. `client_tools` are those that a
        client brings beside the gateway's: the search does not know them, so they are always loaded. `declared` is the
        search that the client declares; an engine that searches itself gets it as it is.
        """
        settings = self.config.tool_search_of(engine.model)
        if declared is not None:
            if engine.traits.tool_search:
                return engine
            search = find_by_pattern if declared.takes_pattern else self.tool_finder
            return DeferringEngine(engine, settings, self.tool_finder, declared_search=search, cache=self.deferrals)
        if not settings.above_tokens:
            return engine
        if has_own_tools:
            catalog = self.tool_catalog
            search = partial(catalog.find, tenant=principal.tenant)
            settings = replace(settings, always=(*settings.always, *(escape(tool.name) for tool in client_tools)))
            return DeferringEngine(
                engine, settings, catalog.find, search=search, source_of=catalog.source_of, cache=self.deferrals
            )
        memory = self.search_memory.for_owner(principal.tenant, principal.name)
        return DeferringEngine(engine, settings, self.tool_finder, memory=memory, cache=self.deferrals)
