"""Waits: ends a wait that takes too long, with one timer for all waits of an answer, one after another.

`asyncio.timeout` makes a timer for every wait and takes it back; at an event each that is a good part of what an event
costs. Here an event costs a look at the clock.
"""

from __future__ import annotations

import asyncio
import math
from typing import Any


class Waits:
    """`begin` before a wait and `end` after it, in any task, one wait at a time. Close it at the end."""

    __slots__ = ("_loop", "_task", "_timer", "_until", "is_over")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[Any] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._until = math.inf
        self.is_over = False

    def begin(self, seconds: float) -> None:
        self._task = asyncio.current_task()
        self._until = self._loop.time() + seconds
        if self._timer is None or self._until < self._timer.when():
            self._look()

    def end(self) -> None:
        self._until = math.inf

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def ended(self, cancelled: asyncio.CancelledError) -> None:
        """Called in a wait that was cancelled: returns where it was for its length, and raises it again where not."""
        if not self.is_over or self._task is None:
            raise cancelled
        self._task.uncancel()

    def _look(self) -> None:
        self.close()
        if self._until == math.inf:
            return
        if self._until > self._loop.time():
            self._timer = self._loop.call_at(self._until, self._look)
            return
        self.is_over = True
        if self._task is not None:
            self._task.cancel()
