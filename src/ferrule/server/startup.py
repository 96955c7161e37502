"""Build a gateway from its configuration, connect everything in it, and close it again."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from ferrule.core.byte_cache import PROCESS_BUDGET
from ferrule.engines.engine import Engine
from ferrule.engines.registry import load_engine
from ferrule.errors import DefinitionError
from ferrule.run.approval_policy import ApprovalPolicy
from ferrule.run.ledger.address import open_ledger
from ferrule.run.ledger.ledger import Ledger
from ferrule.run.ledger.sharded_ledger import ShardedLedger
from ferrule.server.config.config import Config
from ferrule.server.gateway import Gateway
from ferrule.server.hook_names import load_hooks
from ferrule.server.observability.telemetry import Telemetry
from ferrule.server.retention import RetentionSweep
from ferrule.server.router import Replica, RoutedEngine, Router
from ferrule.server.tool_catalog import ToolCatalog
from ferrule.server.tools.credentials import keep_credentials
from ferrule.server.tools.server_questions import answer_questions
from ferrule.server.usage_priors import UsagePriors
from ferrule.sources.combined_sources import CombinedSources
from ferrule.sources.search.tool_index import ToolIndex
from ferrule.sources.source import Source


@asynccontextmanager
async def open_gateway(
    config: Config,
    sources: Iterable[Source] = (),
    load: Callable[[str], Engine] = load_engine,
    telemetry: Telemetry | None = None,
) -> AsyncGenerator[Gateway]:
    """Open a gateway for the duration of a `with` block.

    `sources` are the tool sources that the configuration names. The caller creates them: see `cli.serve_sources`.
    """
    PROCESS_BUDGET.max_bytes = config.limits.cache_bytes
    hooks = load_hooks(config.tools.hooks)
    if config.uses_tool_search:
        # Its package may be missing: better known now than with the first large request.
        ToolIndex()
    async with AsyncExitStack() as stack:
        telemetry = telemetry or Telemetry()
        router = build_router(config, load)
        opened: list[Gateway] = []

        async def close_engines() -> None:
            # A reload may have exchanged them.
            await (opened[0].router if opened else router).close()

        stack.push_async_callback(close_engines)
        refresh_seconds, policy = config.sources.mcp_tool_refresh_seconds, ApprovalPolicy(config.approvals)
        tool_catalog = ToolCatalog(CombinedSources(sources), config.tools, refresh_seconds, policy)
        tool_catalog.on_quarantine, tool_catalog.on_run = telemetry.record_quarantine, telemetry.record_tool_run
        telemetry.is_mcp_tool = tool_catalog.is_mcp_tool
        observe_engines(telemetry, config, router)
        ledger = await _open_ledger(config, stack)
        logins = keep_credentials(
            config, tool_catalog.source.sources, ledger, served=lambda: tool_catalog.source.sources
        )
        await tool_catalog.open()
        stack.push_async_callback(tool_catalog.close)
        if isinstance(ledger, ShardedLedger):
            ledger.on_failure = telemetry.record_ledger_failure
        priors = UsagePriors(ledger, telemetry, config.search.usage_half_life_days)
        tool_catalog.prior_of = priors.prior
        stack.push_async_callback(priors.close)
        gateway = Gateway(config, router, tool_catalog, ledger, telemetry, hooks)
        opened.append(gateway)
        # Entered early, so that it is left late: answers that end count what they have used.
        stack.push_async_callback(gateway.quotas.close)
        answer_questions(gateway, tool_catalog.source.sources)
        gateway.logins = logins

        async def close_logins() -> None:
            # A reload may have begun with them.
            if gateway.logins is not None:
                await gateway.logins.close()

        gateway.shutdown_callbacks.append(close_logins)
        # The first callback runs last: when every answer has ended.
        gateway.shutdown_callbacks.append(await gateway.keys.start())
        gateway.shutdown_callbacks.append(gateway.traces.start())
        gateway.shutdown_callbacks.append(RetentionSweep(ledger, config.retention, telemetry).start())
        # Pushed last, so that it runs first, while engines, tools and ledger are still open.
        stack.push_async_callback(gateway.stop)
        for name, error in (await gateway.engine_probe.probe()).items():
            # An engine that is not there yet is shown and retried; the gateway serves the other models meanwhile.
            telemetry.record_probe(name, error)
        yield gateway


def observe_engines(telemetry: Telemetry, config: Config, router: Router) -> None:
    """Let telemetry see what the engines of a router do, and know their prices."""
    for engine in router.models.values():
        engine.on_failure, engine.on_finish = telemetry.record_engine_failure, telemetry.record_engine_finish
    telemetry.prices = {one.name: (one.input_price, one.output_price) for one in config.engines}


def build_router(
    config: Config, load: Callable[[str], Engine] = load_engine, known: Mapping[str, Replica] | None = None
) -> Router:
    """Load the engines of a configuration, except those that are `known` by their name."""
    found = known or {}
    replicas = {one.name: found.get(one.name) or Replica(one.name, load(one.use)) for one in config.engines}
    models: dict[str, RoutedEngine] = {}
    for model in config.served_models:
        missing = [name for name in model.engines if name not in replicas]
        if missing:
            raise DefinitionError(
                f"the model {model.name!r} names an unknown engine: {missing[0]!r}",
                hint=f"Known engines: {', '.join(replicas)}.",
            )
        models[model.name] = RoutedEngine(
            model.name, [replicas[name] for name in model.engines], balanced=model.balanced
        )
    if not models:
        raise DefinitionError(
            "no engine is configured", hint="Give --engine llama:model.gguf, or name one in ferrule.toml."
        )
    return Router(models, accepts_any_name=len(models) == 1)


async def _open_ledger(config: Config, stack: AsyncExitStack) -> Ledger:
    address = config.ledger
    if not address:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="ferrule-"))
        address = str(Path(folder) / "ledger.db")
    # While Postgres is away, a gateway that restarts serves the requests that keep nothing, as one that runs does.
    ledger = await open_ledger(address, must_answer=False, connections=config.ledger_connections)
    stack.push_async_callback(ledger.close)
    return ledger
