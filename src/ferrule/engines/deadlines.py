"""DeadlineTimer: cancels waits that take too long, with one timer for all successive waits of an answer.

`asyncio.timeout` creates and cancels a timer for every wait. With one wait per event that is a large share of an
event's cost. Here an event only costs one look at the clock.
"""

from __future__ import annotations

import asyncio
import math
from typing import Any


class DeadlineTimer:
    """Call `start` before a wait and `stop` after it, in any task, one wait at a time. Close it at the end."""

    __slots__ = ("_deadline", "_loop", "_task", "_timer", "is_expired")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[Any] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._deadline = math.inf
        self.is_expired = False

    def start(self, seconds: float) -> None:
        self._task = asyncio.current_task()
        self._deadline = self._loop.time() + seconds
        if self._timer is None or self._deadline < self._timer.when():
            self._check()

    def stop(self) -> None:
        self._deadline = math.inf

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def reraise_unless_expired(self, cancelled: asyncio.CancelledError) -> None:
        """Call this in a cancelled wait: returns if the deadline cancelled it, else raises the cancellation again."""
        if not self.is_expired or self._task is None:
            raise cancelled
        self._task.uncancel()

    def _check(self) -> None:
        self.close()
        if self._deadline == math.inf:
            return
        if self._deadline > self._loop.time():
            self._timer = self._loop.call_at(self._deadline, self._check)
            return
        self.is_expired = True
        if self._task is not None:
            self._task.cancel()
