"""Wait for a condition, for as long as a busy machine needs. Tests never sleep for a fixed time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

PATIENCE = 300.0
"""Seconds. Not a measure of speed: it only ends a test that would wait forever."""
MOMENT = 60.0
"""Seconds that an immediate action may take: far below PATIENCE, and more than a busy machine needs."""


async def until(claim: Callable[[], bool]) -> None:
    """Wait until the condition is true; TimeoutError after PATIENCE."""
    async with asyncio.timeout(PATIENCE):
        while not claim():
            await asyncio.sleep(0.02)


def eventually(claim: Callable[[], bool]) -> None:
    """The same for a test without an event loop."""
    give_up = time.monotonic() + PATIENCE
    while not claim():
        if time.monotonic() > give_up:
            raise TimeoutError
        time.sleep(0.02)
