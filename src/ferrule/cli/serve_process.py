"""The processes of `ferrule serve`: one gateway in this process, or several worker processes."""

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
from ferrule.server.observability.metrics import SharedCounts
from ferrule.server.observability.telemetry import Telemetry
from ferrule.server.process import event_loop
from ferrule.server.process.exit_deadline import AFTER_CLOSE, AFTER_DRAIN, ExitDeadline
from ferrule.server.process.workers import FAILED, WorkerSlot, supervise

Greet = Callable[[Gateway, int], None]
"""Called once with the gateway and its port. It must be importable, because a worker is another interpreter."""


def run(config: Config, greet: Greet) -> None:
    """Serve until stopped. Raises `SystemExit` if the workers cannot start."""
    if config.server.workers == 1:
        event_loop.run(serve_gateway(config, greet, exit_deadline=ExitDeadline(Log.to_stderr())))
        return
    code = supervise(config.server, _run_worker, (config, greet), Log.to_stderr())
    if code:
        raise SystemExit(code)


def _run_worker(slot: WorkerSlot, ready: Callable[[], None], config: Config, greet: Greet) -> None:
    # Without a configured ledger the workers share a temporary one: any worker may continue a conversation.
    shared = replace(config, ledger=config.ledger or str(Path(slot.folder) / "ledger.db"))
    try:
        event_loop.run(serve_gateway(shared, greet, slot, ready, exit_deadline=ExitDeadline(Log.to_stderr())))
    except FerruleError as error:
        print(f"error: {error.message}", *([f"hint: {error.hint}"] if error.hint else []), sep="\n", file=sys.stderr)
        raise SystemExit(FAILED) from None


async def serve_gateway(
    config: Config,
    greet: Greet,
    slot: WorkerSlot | None = None,
    ready: Callable[[], None] = lambda: None,
    *,
    exit_deadline: ExitDeadline,
) -> None:
    """Run one gateway until it is stopped. From the first signal on, the process has a deadline to end."""
    from ferrule.server.app import application
    from ferrule.server.observability.logs import capture_library_logs
    from ferrule.server.observability.metrics_api import share_counts
    from ferrule.server.observability.telemetry import current_ids
    from ferrule.server.process.server import serve
    from ferrule.server.startup import open_gateway

    telemetry = Telemetry(Log.to_stderr())
    capture_library_logs(telemetry.log, current_ids)

    def on_started(port: int) -> None:
        if slot is None or slot.is_first:
            greet(gateway, port)
        ready()

    shared = SharedCounts(Path(slot.folder), slot.number) if slot else None
    async with open_gateway(config, sources_of(config), telemetry=telemetry) as gateway, share_counts(gateway, shared):
        await serve(
            application(gateway),
            config.server,
            on_started,
            config.limits,
            telemetry=telemetry,
            socket=slot.socket if slot else None,
            on_signal=lambda: exit_deadline.set(_seconds_to_close(config, telemetry), FAILED),
        )
    # Engines, tools and the ledger are closed. What still runs is a thread that nobody waits for.
    exit_deadline.set(AFTER_CLOSE, 0)


def _seconds_to_close(config: Config, telemetry: Telemetry) -> float:
    """How long the gateway may take to end from a signal on. The second signal ends the waiting for answers."""
    return AFTER_DRAIN + (0.0 if telemetry.drain.has_begun else config.server.drain_seconds)
