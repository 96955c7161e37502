"""An event loop with virtual time: when nothing is left to do now, the clock jumps to the next timer."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar
from unittest.mock import patch

T = TypeVar("T")
# Far from zero, so that an absolute deadline looks like one.
BEGINNING = 1_000_000.0


class _NeverWaits(selectors.DefaultSelector):
    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise AssertionError("no timer is left: the scenario is stuck")
        self._loop.now += max(0.0, timeout)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """Everything must run in this loop: a thread would run in real time."""

    def __init__(self) -> None:
        self.now = BEGINNING
        super().__init__(_NeverWaits(self))

    def time(self) -> float:
        return self.now


def in_virtual_time(scenario: Coroutine[Any, Any, T]) -> T:
    """Run a scenario with all clocks of the program set to the loop's time, and return its result."""
    loop = VirtualLoop()
    try:
        with patch("time.time", loop.time), patch("time.monotonic", loop.time):
            try:
                return loop.run_until_complete(scenario)
            finally:
                tasks = asyncio.all_tasks(loop)
                for task in tasks:
                    task.cancel()
                if tasks:
                    loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
    finally:
        loop.close()
