"""The processes of `ferrule serve`: one gateway in this one, or several beside each other. Reads no flags."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ferrule.cli.serve_sources import sources_of
from ferrule.errors import FerruleError
from ferrule.server.config.config import Config
from ferrule.server.gateway import Gateway
from ferrule.server.observability.logs import Log
from ferrule.server.observability.metrics_shared import Shared
from ferrule.server.process import event_loop
from ferrule.server.process.workers import FAILED, Place, supervised

Greet = Callable[[Gateway, int], None]
"""Is told the gateway and its port, once. Importable: a worker is another interpreter."""


def run(config: Config, greet: Greet) -> None:
    """Until it is told to stop; leaves with an exit code where workers cannot start."""
    if config.listening.workers == 1:
        event_loop.run(served(config, greet))
        return
    code = supervised(config.listening, _worked, (config, greet), Log.to_stderr())
    if code:
        raise SystemExit(code)


def _worked(place: Place, ready: Callable[[], None], config: Config, greet: Greet) -> None:
    # Without a ledger of the configuration's they share one all the same: a conversation is not one worker's.
    shared = replace(config, ledger=config.ledger or str(Path(place.folder) / "ledger.db"))
    try:
        event_loop.run(served(shared, greet, place, ready))
    except FerruleError as error:
        print(f"error: {error.message}", *([f"hint: {error.hint}"] if error.hint else []), sep="\n", file=sys.stderr)
        raise SystemExit(FAILED) from None


async def served(
    config: Config, greet: Greet, place: Place | None = None, ready: Callable[[], None] = lambda: None
) -> None:
    """One gateway, until it is told to stop."""
    from ferrule.server.app import application
    from ferrule.server.observability.library_logs import take_over
    from ferrule.server.observability.metrics_api import counts_shared
    from ferrule.server.observability.telemetry import Watch
    from ferrule.server.process.server import serve
    from ferrule.server.startup import opened

    watch = Watch(Log.to_stderr())
    take_over(watch.log)

    def started(port: int) -> None:
        if place is None or place.is_first:
            greet(gateway, port)
        ready()

    shared = Shared(Path(place.folder), place.number) if place else None
    async with opened(config, sources_of(config), watch=watch) as gateway, counts_shared(gateway, shared):
        await serve(
            application(gateway),
            config.listening,
            started,
            config.limits,
            watch=watch,
            socket=place.socket if place else None,
        )
