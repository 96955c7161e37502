"""Opening: a gateway from its configuration, with everything in it connected; closed again when it is left."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from ferrule.engines.engine import Engine
from ferrule.engines.registry import load_engine
from ferrule.errors import DefinitionError
from ferrule.run.ledger.address import ledger_at
from ferrule.run.ledger.ledger import Ledger
from ferrule.server.config.config import Config
from ferrule.server.gateway import Gateway
from ferrule.server.observability.telemetry import Watch
from ferrule.server.observability.tool_usage import Selections
from ferrule.server.router import Replica, RoutedEngine, Router
from ferrule.server.tool_catalog import Toolbox
from ferrule.sources.combined_sources import Joined
from ferrule.sources.source import Source


@asynccontextmanager
async def opened(
    config: Config,
    sources: Iterable[Source] = (),
    pick: Callable[[str], Engine] = load_engine,
    watch: Watch | None = None,
) -> AsyncGenerator[Gateway]:
    """`sources` are those that the configuration names, made by whoever may read it; see `cli.serve_sources`."""
    async with AsyncExitStack() as stack:
        watch = watch or Watch()
        router = router_of(config, pick)
        stack.push_async_callback(router.close)
        toolbox = Toolbox(Joined(sources), config.tools, config.sources.mcp_tool_refresh_seconds)
        toolbox.held_back, toolbox.ran = watch.held_back, watch.tool_ran
        selections = Selections(watch.counts, lambda: toolbox.tools)
        for engine in router.models.values():
            engine.heard, engine.replied = watch.engine_failed, selections.replied
        await toolbox.open()
        stack.push_async_callback(toolbox.close)
        ledger = await _ledger(config, stack)
        gateway = Gateway(config, router, toolbox, ledger, watch)
        stack.push_async_callback(gateway.stop)
        yield gateway


def router_of(config: Config, load: Callable[[str], Engine] = load_engine) -> Router:
    replicas = {one.name: Replica(one.name, load(one.use)) for one in config.engines}
    models: dict[str, RoutedEngine] = {}
    for model in config.served:
        missing = [name for name in model.engines if name not in replicas]
        if missing:
            raise DefinitionError(
                f"the model {model.name!r} names the engine {missing[0]!r}, which is not there",
                hint=f"There are: {', '.join(replicas)}.",
            )
        models[model.name] = RoutedEngine(
            model.name, [replicas[name] for name in model.engines], balanced=model.balanced
        )
    if not models:
        raise DefinitionError("there is no engine", hint="Give --engine llama:model.gguf, or name one in ferrule.toml.")
    return Router(models, accepts_any_name=len(models) == 1)


async def _ledger(config: Config, stack: AsyncExitStack) -> Ledger:
    where = config.ledger
    if not where:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="ferrule-"))
        where = str(Path(folder) / "ledger.db")
    ledger = await ledger_at(where)
    stack.push_async_callback(ledger.close)
    return ledger
