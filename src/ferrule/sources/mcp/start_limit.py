"""StartLimit: how many servers a process starts again in a second, whichever source they belong to.

When many servers die at once, each of them would start at the same moment, and the machine would do nothing else. The
first start of a server does not count: opening a source starts all of its servers side by side.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable


class StartLimit:
    """At most `per_second` permits in any second, in the order in which they were asked for.

    It may be shared by several event loops. A caller that gives up loses its turn, and nobody else's.
    """

    def __init__(self, per_second: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second = per_second
        self._clock = clock
        self._lock = threading.Lock()
        self._next_turn = 0.0
        # When the last permits were really given: a busy event loop wakes several callers late, and all at once.
        self._given: deque[float] = deque(maxlen=per_second)

    async def wait(self) -> None:
        """Return when one more server may be started."""
        seconds = self.reserve()
        while seconds > 0:
            await asyncio.sleep(seconds)
            seconds = self.missing_seconds()

    def reserve(self) -> float:
        """Take the next turn. Returns the seconds until it comes; if there are none, the permit is given."""
        with self._lock:
            now = self._clock()
            turn = max(now, self._next_turn)
            self._next_turn = turn + 1 / self._per_second
            return turn - now if turn > now else self._missing_seconds(now)

    def missing_seconds(self) -> float:
        """How long a caller whose turn has come must still wait. If it is 0, the permit is given."""
        with self._lock:
            return self._missing_seconds(self._clock())

    def _missing_seconds(self, now: float) -> float:
        is_full = len(self._given) == self._per_second
        missing = self._given[0] + 1 - now if is_full else 0.0
        if missing > 0:
            return missing
        self._given.append(now)
        return 0.0


RESTARTS = StartLimit(8)
"""The limit of this process. It is below ten, because a permit comes shortly before the start that it allows."""
