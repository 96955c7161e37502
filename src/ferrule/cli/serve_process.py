"""The processes of `ferrule serve`: one gateway in this process, or several worker processes."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ferrule.cli.serve_sources import plans_of, watched_files
from ferrule.errors import FerruleError
from ferrule.server.config.config import Config
from ferrule.server.gateway import Gateway
from ferrule.server.observability.logs import Log
from ferrule.server.observability.metrics import SharedCounts
from ferrule.server.observability.telemetry import Telemetry
from ferrule.server.process import event_loop
from ferrule.server.process.exit_deadline import AFTER_CLOSE, AFTER_DRAIN, ExitDeadline
from ferrule.server.process.hang_ups import FileWatch, HangUps, hang_up_supervisor
from ferrule.server.process.workers import FAILED, WorkerSlot, supervise
from ferrule.server.secret_mask import mask_text
from ferrule.sources.combined_sources import SourcePlan

if TYPE_CHECKING:
    from ferrule.server.reload import Reloader

_POLL_SECONDS = 0.2

Greet = Callable[[Gateway, int], None]
"""Called once with the gateway and its port. It must be importable, because a worker is another interpreter."""


@dataclass(frozen=True, slots=True)
class Reloading:
    """How the configuration is read again. It must be picklable, as `Greet` is."""

    read: Callable[[], Config]
    file: Path
    is_watching: bool = False

    def watch(self, config: Config) -> FileWatch | None:
        """Return what sees changes of the files of a configuration; None if nobody wants that."""
        return FileWatch([self.file, *watched_files(config)]) if self.is_watching else None


def run(config: Config, greet: Greet, reloading: Reloading) -> None:
    """Serve until stopped. Raises `SystemExit` if the workers cannot start."""
    # From here on a hang-up is a request to reload, also before anybody can carry it out.
    hang_ups = HangUps()
    if config.server.workers == 1:
        event_loop.run(serve_gateway(config, greet, reloading, hang_ups, exit_deadline=ExitDeadline(Log.to_stderr())))
        return
    log = Log.to_stderr()
    renewal = _Renewal(config, greet, reloading, hang_ups, log)
    code = supervise(config.server, _run_worker, (config, greet, reloading), log, renewal)
    if code:
        raise SystemExit(code)


class _Renewal:
    """Gives workers another configuration: when a hang-up has come, or a watched file has changed, and it is valid."""

    def __init__(self, config: Config, greet: Greet, reloading: Reloading, hang_ups: HangUps, log: Log) -> None:
        self._greet, self._reloading, self._hang_ups, self._log = greet, reloading, hang_ups, log
        self._watch = reloading.watch(config)

    def __call__(self) -> tuple[Any, ...] | None:
        if not self._hang_ups.take() and not (self._watch is not None and self._watch.has_changed()):
            return None
        try:
            config = self._reloading.read()
        except FerruleError as error:
            self._log.emit("reload_failed", outcome=error.code, detail=mask_text(error.message))
            return None
        self._watch = self._reloading.watch(config)
        return config, self._greet, self._reloading


def _run_worker(
    slot: WorkerSlot, ready: Callable[[], None], config: Config, greet: Greet, reloading: Reloading
) -> None:
    hang_ups = HangUps()
    # Without a configured ledger the workers share a temporary one: any worker may continue a conversation.
    shared = replace(config, ledger=config.ledger or str(Path(slot.folder) / "ledger.db"))
    try:
        event_loop.run(
            serve_gateway(
                shared,
                greet,
                reloading,
                hang_ups,
                slot,
                ready,
                given=config,
                exit_deadline=ExitDeadline(Log.to_stderr()),
            )
        )
    except FerruleError as error:
        print(f"error: {error.message}", *([f"hint: {error.hint}"] if error.hint else []), sep="\n", file=sys.stderr)
        raise SystemExit(FAILED) from None


async def serve_gateway(
    config: Config,
    greet: Greet,
    reloading: Reloading,
    hang_ups: HangUps,
    slot: WorkerSlot | None = None,
    ready: Callable[[], None] = lambda: None,
    *,
    given: Config | None = None,
    exit_deadline: ExitDeadline,
) -> None:
    """Run one gateway until it is stopped. From the first signal on, the process has a deadline to end.

    `given` is the configuration as it was read, if that is another one.
    """
    from ferrule.server.app import application
    from ferrule.server.observability.logs import capture_library_logs
    from ferrule.server.observability.metrics_api import share_counts
    from ferrule.server.observability.telemetry import current_ids
    from ferrule.server.process.server import serve
    from ferrule.server.reload import Reloader
    from ferrule.server.startup import open_gateway

    telemetry = Telemetry(Log.to_stderr())
    capture_library_logs(telemetry.log, current_ids)

    def on_started(port: int) -> None:
        if slot is None or slot.is_first:
            greet(gateway, port)
        ready()

    def plan(config: Config) -> list[SourcePlan]:
        return plans_of(config.sources, config.openapi, is_fresh=True)

    shared = SharedCounts(Path(slot.folder), slot.number) if slot else None
    plans = plans_of(config.sources, config.openapi)
    sources = [plan.make() for plan in plans]
    async with (
        open_gateway(config, sources, telemetry=telemetry) as gateway,
        share_counts(gateway, shared),
    ):
        reloader = Reloader(gateway, given or config, reloading.read, plan, plans, sources)
        # The supervisor passes it on to all workers, and gives it to those that it starts later.
        reloader.after = hang_up_supervisor if slot else reloader.after
        gateway.reload = reloader.reload_for_request
        gateway.shutdown_callbacks.append(reloader.close)
        gateway.shutdown_callbacks.append(follow_changes(reloader, hang_ups, reloading, is_watching=slot is None))
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


def follow_changes(
    reloader: Reloader, hang_ups: HangUps, reloading: Reloading, *, is_watching: bool
) -> Callable[[], Awaitable[None]]:
    """Reload after each hang-up and, in a process that watches, each change of a file. Returns what stops it."""

    async def follow() -> None:
        watch = reloading.watch(reloader.config) if is_watching else None
        while True:
            await asyncio.sleep(_POLL_SECONDS)
            if hang_ups.take() or (watch is not None and watch.has_changed()):
                # It is in the log why a configuration is not taken up.
                with suppress(FerruleError):
                    await reloader.reload()
                    watch = reloading.watch(reloader.config) if is_watching else None

    task = asyncio.ensure_future(follow())

    async def stop() -> None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    return stop


def _seconds_to_close(config: Config, telemetry: Telemetry) -> float:
    """How long the gateway may take to end from a signal on. The second signal ends the waiting for answers."""
    return AFTER_DRAIN + (0.0 if telemetry.drain.has_begun else config.server.drain_seconds)
