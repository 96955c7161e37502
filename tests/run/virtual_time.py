"""An event loop whose time is counted and not waited for: when nothing is left to do now, it is the next moment."""

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
            raise AssertionError("nothing is left to do, ever: the story is stuck")
        self._loop.now += max(0.0, timeout)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """Everything in it must be of it: a thread would be outrun."""

    def __init__(self) -> None:
        self.now = BEGINNING
        super().__init__(_NeverWaits(self))

    def time(self) -> float:
        return self.now


def in_virtual_time(story: Coroutine[Any, Any, T]) -> T:
    """What a story comes to, with every clock of the program on the loop's time."""
    loop = VirtualLoop()
    try:
        with patch("time.time", loop.time), patch("time.monotonic", loop.time):
            try:
                return loop.run_until_complete(story)
            finally:
                left = asyncio.all_tasks(loop)
                for task in left:
                    task.cancel()
                loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
    finally:
        loop.close()
