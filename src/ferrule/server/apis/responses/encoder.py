"""Telling: the events of one response on their way out. They are in the ledger before anybody hears of them.

Written in small batches: often enough that nobody waits, and seldom enough that the ledger is not written for every
word. Knows no API: an event is JSON.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ferrule.run.ledger.claim import kept_json
from ferrule.run.ledger.ledger import Ledger, ResponseStatus

_PAUSE = 0.02
_BATCH = 64

Events = Sequence[Mapping[str, Any]]


class Telling:
    """`told` is everything that was told so far, also by owners before this one."""

    def __init__(
        self,
        ledger: Ledger,
        response: str,
        epoch: int,
        told: Sequence[str],
        *,
        heartbeat: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.told = list(told)
        self.cancelled = asyncio.Event()
        """Somebody asked that the answer end."""
        self.is_over = False
        """Nothing more will come from here: the answer has ended, or is another's now."""
        self.has_ended = False
        """The answer has, and its conversation is held no longer."""
        self._ledger = ledger
        self._response = response
        self._epoch = epoch
        self._heartbeat = heartbeat
        self._clock = clock
        self._waiting: list[str] = []
        self._has_waiting = asyncio.Event()
        self._writing = asyncio.Lock()
        self._news = asyncio.Event()

    def add(self, events: Events) -> None:
        if events:
            self._waiting += [kept_json(event) for event in events]
            self._has_waiting.set()

    @property
    def is_full(self) -> bool:
        return len(self._waiting) >= _BATCH

    async def flush(
        self, last: Events = (), *, state: Any = None, status: ResponseStatus | None = None, reach: int = 0
    ) -> None:
        """Tell what waits and `last`, in one transaction with the conversation's state and the answer's status."""
        writing = asyncio.ensure_future(self._flushed(last, state, status, reach))
        writing.add_done_callback(_looked_at)
        # Whoever is cancelled here does not know whether it was written; the next one waits, and then does.
        await asyncio.shield(writing)

    async def go_on(self) -> None:
        """Tell what waits every few moments, and now and then look whether the answer is still wanted."""
        while True:
            has_waiting = await _within(self._heartbeat, self._has_waiting)
            if has_waiting:
                await asyncio.sleep(_PAUSE)
            if self._waiting or not has_waiting:
                await self.flush()

    async def news(self, seconds: float) -> bool:
        """Whether something was told within so long."""
        return await _within(seconds, self._news)

    async def stop(self) -> None:
        """Nothing more will come. What is being written now is written first."""
        async with self._writing:
            self.is_over = True
            self._announce()

    async def _flushed(self, last: Events, state: Any, status: ResponseStatus | None, reach: int) -> None:
        async with self._writing:
            batch = [*self._waiting, *map(kept_json, last)]
            self._waiting = []
            self._has_waiting.clear()
            record = await self._ledger.tell(
                *(self._response, self._epoch, batch),
                first=len(self.told),
                state=state,
                status=status,
                reach=reach,
                now=self._clock(),
            )
            self.told += batch
            self.has_ended = record.is_ended
            self.is_over = self.is_over or record.is_ended
            if record.is_cancelled:
                self.cancelled.set()
            if batch or self.is_over:
                self._announce()

    def _announce(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()


async def _within(seconds: float, event: asyncio.Event) -> bool:
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False


def _looked_at(task: asyncio.Task[None]) -> None:
    """Where nobody waits any more, a failure is of no interest: the next one to write meets it again."""
    if not task.cancelled():
        task.exception()
