"""Waiting for what must come true, for as long as a busy machine takes: no test sleeps and hopes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

PATIENCE = 90.0
"""Seconds. Never a measure of speed: only what holds a test that would wait for ever."""
MOMENT = 10.0
"""Seconds that what is done at once may take: far from any patience, and more than a busy machine needs."""


async def until(claim: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not claim():
            await asyncio.sleep(0.02)


def eventually(claim: Callable[[], bool]) -> None:
    """The same for a test that runs no loop."""
    give_up = time.monotonic() + PATIENCE
    while not claim():
        if time.monotonic() > give_up:
            raise TimeoutError
        time.sleep(0.02)
