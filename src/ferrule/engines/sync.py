"""Synchronous access: the one place where synchronous code waits for asynchronous code.

Everything runs in one event loop in its own thread. So an engine's connections live as long as the process, and a
program that already runs a loop, such as a notebook, can use the synchronous functions too.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Coroutine, Iterator
from functools import lru_cache
from typing import Any, TypeVar

_T = TypeVar("_T")


def run(work: Coroutine[Any, Any, _T]) -> _T:
    """Run the coroutine and return its result. Interrupting the wait cancels it."""
    future = asyncio.run_coroutine_threadsafe(work, _loop())
    try:
        return future.result()
    finally:
        # This does nothing if the work is done, and stops it if nobody waits for it any more.
        future.cancel()


def iterate(steps: AsyncGenerator[_T, None]) -> Iterator[_T]:
    """Iterate over an asynchronous generator; leaving the loop early closes the generator."""
    try:
        while (step := run(_next(steps))) is not None:
            yield step[0]
    finally:
        run(steps.aclose())


async def _next(steps: AsyncGenerator[_T, None]) -> tuple[_T] | None:
    async for step in steps:
        return (step,)
    return None


@lru_cache(maxsize=1)
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="ferrule", daemon=True).start()
    return loop
