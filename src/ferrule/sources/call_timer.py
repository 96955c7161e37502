"""CallTimer: the time limit of a running call, which stands still while the call waits for a person.

A server that asks a person something in the middle of a call would otherwise run out of time before anybody has read
the question. Even so a call ends: all its pauses together have a limit, and a caller's own deadline is never moved.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext

MAX_PAUSE = 3600.0
"""How many seconds the pauses of one call may take together."""


class CallTimer:
    """A timeout of `seconds` that can be paused. Use it once, with `async with`; it raises `TimeoutError`.

    `deadline` is in Unix seconds and holds during a pause too. `outer` pauses a timer around this one;
    `outer_renew` renews it.

    Example:
        async with CallTimer(30) as timer:
            with timer.pause():
                await answer_of_a_person()
    """

    def __init__(
        self,
        seconds: float,
        *,
        deadline: float | None = None,
        outer: Callable[[], AbstractContextManager[None]] = nullcontext,
        outer_renew: Callable[[], None] = lambda: None,
    ) -> None:
        self._seconds = seconds
        self._deadline = deadline
        self._outer = outer
        self._outer_renew = outer_renew
        self._timeout = asyncio.timeout(None)
        self._is_running = False
        self._pauses = 0
        self._left = 0.0
        self._latest = 0.0

    async def __aenter__(self) -> CallTimer:
        now = asyncio.get_running_loop().time()
        self._latest = self._latest_from(now)
        await self._timeout.__aenter__()
        self._timeout.reschedule(min(now + self._seconds, self._latest))
        self._is_running = True
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._is_running = False
        await self._timeout.__aexit__(kind, error, None)

    @contextmanager
    def pause(self) -> Generator[None]:
        """Stop the time. Several pauses may overlap: it runs again after the last."""
        with self._outer():
            self._pauses += 1
            if self._pauses == 1 and self._can_move:
                self._left = max(0.0, (self._timeout.when() or 0.0) - asyncio.get_running_loop().time())
                self._timeout.reschedule(self._latest)
            try:
                yield
            finally:
                self._pauses -= 1
                if self._pauses == 0 and self._can_move:
                    again = asyncio.get_running_loop().time() + self._left
                    self._timeout.reschedule(min(again, self._latest))

    def renew(self) -> None:
        """Begin the time again, because the call has shown that it still runs. A deadline is not moved."""
        self._outer_renew()
        if self._can_move:
            now = asyncio.get_running_loop().time()
            self._latest = self._latest_from(now)
            self._left = self._seconds
            self._timeout.reschedule(self._latest if self._pauses else min(now + self._seconds, self._latest))

    @property
    def when(self) -> float:
        """When it ends, in the time of the event loop; infinity before it has begun."""
        when = self._timeout.when()
        return float("inf") if when is None else when

    def _latest_from(self, now: float) -> float:
        latest = now + self._seconds + MAX_PAUSE
        return latest if self._deadline is None else min(latest, now + max(0.0, self._deadline - time.time()))

    @property
    def _can_move(self) -> bool:
        return self._is_running and not self._timeout.expired()
