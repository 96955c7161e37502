"""RetentionSweep: prepares a gateway's ledger for the next weeks, and removes what is old, a little at a time.

Every process does it, and they need not agree: a conversation is removed once, and a table is dropped once.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable

from ferrule.errors import FerruleError
from ferrule.run.ledger.ledger import Ledger
from ferrule.run.ledger.prune_report import PruneReport
from ferrule.server.config.config import RetentionConfig
from ferrule.server.observability.telemetry import Telemetry

_DAY_SECONDS = 86_400.0
_EVERY_SECONDS = 3600.0
_PAUSE_SECONDS = 0.5
"""After each batch, so that answers do not notice."""


class RetentionSweep:
    """Start it when the ledger is open. `start` returns a function that stops it."""

    def __init__(
        self,
        ledger: Ledger,
        config: RetentionConfig,
        telemetry: Telemetry,
        *,
        every_seconds: float = _EVERY_SECONDS,
        pause_seconds: float = _PAUSE_SECONDS,
    ) -> None:
        self._ledger = ledger
        self._config = config
        self._telemetry = telemetry
        self._every_seconds = every_seconds
        self._pause_seconds = pause_seconds

    def start(self) -> Callable[[], Awaitable[None]]:
        task = asyncio.ensure_future(self._run())

        async def stop() -> None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        return stop

    async def sweep(self) -> PruneReport | None:
        """Do it once. Returns what was removed; None if everything is kept for ever."""
        now, days, audit_days = time.time(), self._config.conversation_days, self._config.audit_days
        await self._ledger.maintain(now=now)
        if not days:
            return None
        return await self._ledger.prune(
            now - days * _DAY_SECONDS,
            now - audit_days * _DAY_SECONDS if audit_days else None,
            now=now,
            whole_weeks=True,
            after_batch=self._pause,
        )

    async def _run(self) -> None:
        while True:
            # Not at once, and not all processes at the same time.
            await asyncio.sleep(self._every_seconds * random.uniform(0.1, 1.0))
            try:
                await self.sweep()
            except FerruleError as failure:
                self._telemetry.record_error(failure)
            # The sweep must outlive every mistake in it: without it, the ledger grows.
            except Exception as error:
                self._telemetry.handle_unexpected(error, "")

    async def _pause(self, report: PruneReport) -> None:
        await asyncio.sleep(self._pause_seconds)
