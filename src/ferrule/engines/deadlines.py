"""DeadlineTimer: cancels waits that take too long, with one timer for all successive waits of an answer.

`asyncio.timeout` creates and cancels a timer for every wait. With one wait per event that is a large share of an
event's cost. Here an event only costs one look at the clock, and none at the current task, if the wait can be ended by
something else than its cancellation.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any


class DeadlineTimer:
    """Call `start` before a wait and `stop` after it, in any task, one wait at a time. Close it at the end.

    `on_expiry` ends a wait that takes too long; without it, the task that waits is cancelled. Pass `task` to `start` if
    you know which one waits: to find it out costs more than all the rest.
    """

    __slots__ = ("_deadline", "_loop", "_on_expiry", "_task", "_timer", "is_expired")

    def __init__(self, on_expiry: Callable[[], object] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_expiry = on_expiry
        self._task: asyncio.Task[Any] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._deadline = math.inf
        self.is_expired = False

    def start(self, seconds: float, task: asyncio.Task[Any] | None = None) -> None:
        if self._on_expiry is None:
            self._task = task or asyncio.current_task()
        self._deadline = self._loop.time() + seconds
        if self._timer is None or self._deadline < self._timer.when():
            self._check()

    def postpone(self, seconds: float) -> None:
        """Let the wait that is under way, if there is one, take this long from now on."""
        if self._deadline != math.inf:
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
        if self._on_expiry is not None:
            self._on_expiry()
        elif self._task is not None:
            self._task.cancel()
