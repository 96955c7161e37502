"""PoolLoad: how many connections of a pool are in use, and how many statements wait for one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass


@dataclass(slots=True)
class PoolLoad:
    """The load of one process's pool, for its metrics. `limit` is the most that may be in use."""

    limit: int
    in_use: int = 0
    waiting: int = 0

    @asynccontextmanager
    async def slot(self, slots: asyncio.Semaphore) -> AsyncGenerator[None]:
        """Hold one of the slots, and count the wait for it and its use."""
        self.waiting += 1
        try:
            await slots.acquire()
        finally:
            self.waiting -= 1
        self.in_use += 1
        try:
            yield
        finally:
            self.in_use -= 1
            slots.release()
