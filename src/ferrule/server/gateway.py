"""Gateway: the engines, tools and ledger that all APIs share. Knows neither HTTP nor dialects."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from ferrule.core.context import Principal
from ferrule.core.request import ToolCallRequest
from ferrule.errors import AuthorityError
from ferrule.run.hooks import Hook
from ferrule.run.ledger.ledger import Ledger
from ferrule.server.auth.request_limits import RequestLimits
from ferrule.server.config.config import Config
from ferrule.server.engine_probe import EngineProbe
from ferrule.server.observability.metrics import ToolUsageCounter
from ferrule.server.observability.telemetry import Telemetry
from ferrule.server.observability.trace_recorder import TraceRecorder
from ferrule.server.router import Replica, RoutedEngine, Router
from ferrule.server.tool_catalog import ToolCatalog


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

    request_limits: RequestLimits = field(init=False)
    tool_usage: ToolUsageCounter = field(init=False)
    engine_probe: EngineProbe = field(init=False)
    traces: TraceRecorder = field(init=False)

    def __post_init__(self) -> None:
        self.request_limits = RequestLimits(self.config.limits)
        self.tool_usage = ToolUsageCounter(self.telemetry.counts, lambda: self.tool_catalog.tools)
        self.engine_probe = EngineProbe.of(self.config, self.router)
        self.traces = TraceRecorder(self.ledger, self.config.traces, self.telemetry)

    async def stop(self) -> None:
        while self.shutdown_callbacks:
            await self.shutdown_callbacks.pop()()

    def has_tools(self, principal: Principal) -> bool:
        return bool(self.tool_catalog.tools_for(principal))

    def sends_live_arguments(self, principal: Principal) -> bool:
        owner = (principal.name, principal.tenant)
        return any(key.live_arguments and (key.name, key.tenant) == owner for key in self.config.keys)

    def engine(self, request: ToolCallRequest, principal: Principal) -> RoutedEngine:
        engine = self.router.engine(request.model)
        if not principal.may_use(f"model:{engine.model}"):
            raise AuthorityError(
                f"{principal.name} may not use the model {engine.model}", hint="Use a key that lists it in models."
            )
        return engine

    def engines(self, principal: Principal) -> list[tuple[str, Replica]]:
        """The engines of all models that the principal may use, each with the name of its model."""
        models = [model for name, model in self.router.models.items() if principal.may_use(f"model:{name}")]
        return [(model.model, replica) for model in models for replica in model.replicas]

    async def count_tokens(self, request: ToolCallRequest, principal: Principal) -> int:
        """Count the tokens of a request's prompt."""
        engine = self.engine(request, principal)
        await self.request_limits.check(request)
        return await engine.count_tokens(request)
