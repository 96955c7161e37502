"""ResponseEventLog: the events of one response. They are written to the ledger before any reader sees them.

Events are written in small batches: the first at once, and the others often enough that readers do not wait, and rarely
enough that not every word is a transaction. Batches of different responses that wait share a commit (`step_writer`).
Independent of the API: an event is JSON.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ferrule.core.json_text import json_bytes
from ferrule.run.ledger.ledger import Ledger, ResponseStatus

_BATCH_SECONDS = 0.05
"""How often events are written. Readers do not notice it, and the database does.

All responses of a process write at the same moments, so that they share commits however many there are.
"""
_MAX_PENDING = 64

Events = Sequence[Mapping[str, Any]]


class ResponseEventLog:
    """`events` are all events so far, including those that earlier owners of the response have written."""

    def __init__(
        self,
        ledger: Ledger,
        response: str,
        epoch: int,
        events: Sequence[str],
        *,
        heartbeat: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.events = list(events)
        self.cancel_requested = asyncio.Event()
        """Set when a client cancels the response."""
        self.is_over = False
        """No more events come from this process: the response has ended, or another process owns it."""
        self.has_ended = False
        """The response has ended, and its conversation is released."""
        self._ledger = ledger
        self._response = response
        self._epoch = epoch
        self._heartbeat = heartbeat
        self._clock = clock
        self._pending: list[str] = []
        self._has_pending = asyncio.Event()
        self._writing = asyncio.Lock()
        self._changed = asyncio.Event()

    def add(self, events: Events) -> None:
        if events:
            self._pending += map(event_text, events)
            self._has_pending.set()

    @property
    def is_full(self) -> bool:
        return len(self._pending) >= _MAX_PENDING

    async def flush(
        self, last: Events = (), *, state: Any = None, status: ResponseStatus | None = None, reach: int = 0
    ) -> None:
        """Write the pending events and `last`, in one transaction with the conversation's state and the status."""
        write = asyncio.ensure_future(self._write(last, state, status, reach))
        write.add_done_callback(_consume_exception)
        # Shielded: a cancelled caller would not know whether the batch was written. The next writer waits for it.
        await asyncio.shield(write)

    async def run(self) -> None:
        """Write pending events continuously. An empty write at each heartbeat checks for a cancellation."""
        clock, earliest = asyncio.get_running_loop().time, 0.0
        while True:
            has_pending = await _wait_within(self._heartbeat, self._has_pending)
            if has_pending and (wait := earliest - clock()) > 0:
                await asyncio.sleep(wait)
            if self._pending or not has_pending:
                earliest = (round(clock() / _BATCH_SECONDS) + 1) * _BATCH_SECONDS
                await self.flush()

    async def wait_for_events(self, seconds: float) -> bool:
        """Wait for new events. Returns whether there are any."""
        return await _wait_within(seconds, self._changed)

    async def stop(self) -> None:
        """Mark the log as over, after a write in progress has finished."""
        async with self._writing:
            self.is_over = True
            self._notify()

    async def _write(self, last: Events, state: Any, status: ResponseStatus | None, reach: int) -> None:
        async with self._writing:
            batch = [*self._pending, *map(event_text, last)]
            self._pending = []
            self._has_pending.clear()
            record = await self._ledger.append_events(
                *(self._response, self._epoch, batch),
                first=len(self.events),
                state=state,
                status=status,
                reach=reach,
                now=self._clock(),
            )
            self.events += batch
            self.has_ended = record.is_ended
            self.is_over = self.is_over or record.is_ended
            if record.is_cancelled:
                self.cancel_requested.set()
            if batch or self.is_over:
                self._notify()

    def _notify(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


def event_text(event: Mapping[str, Any]) -> str:
    """Return an event as it is stored and sent: JSON on one line."""
    return json_bytes(event).decode()


async def _wait_within(seconds: float, event: asyncio.Event) -> bool:
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False


def _consume_exception(task: asyncio.Task[None]) -> None:
    """Retrieve the exception, so that asyncio does not log it. The next write meets the same failure."""
    if not task.cancelled():
        task.exception()
