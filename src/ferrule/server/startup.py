"""Build a gateway from its configuration, connect everything in it, and close it again."""

from __future__ import annotations

import ipaddress
import tempfile
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

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
from ferrule.sources.combined_sources import CombinedSources
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
    async with AsyncExitStack() as stack:
        telemetry = telemetry or Telemetry()
        router = build_router(config, load)
        stack.push_async_callback(router.close)
        refresh_seconds, policy = config.sources.mcp_tool_refresh_seconds, ApprovalPolicy(config.approvals)
        tool_catalog = ToolCatalog(CombinedSources(sources), config.tools, refresh_seconds, policy)
        tool_catalog.on_quarantine, tool_catalog.on_run = telemetry.record_quarantine, telemetry.record_tool_run
        for engine in router.models.values():
            engine.on_failure, engine.on_finish = telemetry.record_engine_failure, telemetry.record_engine_finish
        telemetry.prices = {one.name: (one.input_price, one.output_price) for one in config.engines}
        await tool_catalog.open()
        stack.push_async_callback(tool_catalog.close)
        ledger = await _open_ledger(config, stack)
        if isinstance(ledger, ShardedLedger):
            ledger.on_failure = telemetry.record_ledger_failure
        gateway = Gateway(config, router, tool_catalog, ledger, telemetry, hooks)
        # The first callback runs last: when every answer has ended.
        gateway.shutdown_callbacks.append(gateway.traces.start())
        gateway.shutdown_callbacks.append(RetentionSweep(ledger, config.retention, telemetry).start())
        # Pushed last, so that it runs first, while engines, tools and ledger are still open.
        stack.push_async_callback(gateway.stop)
        for name, error in (await gateway.engine_probe.probe()).items():
            # An engine that is not there yet is shown and retried; the gateway serves the other models meanwhile.
            telemetry.record_probe(name, error)
        yield gateway


def build_router(config: Config, load: Callable[[str], Engine] = load_engine) -> Router:
    replicas = {one.name: Replica(one.name, load(one.use)) for one in config.engines}
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


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a host. Names other than localhost are not resolved and count as remote."""
    bare = host.removeprefix("[").removesuffix("]")
    try:
        return ipaddress.ip_address(bare).is_loopback
    except ValueError:
        return bare.lower() == "localhost"


def host_of(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""
