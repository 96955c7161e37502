"""Bridge: the one place where synchronous code waits for asynchronous code.

All of it runs in one loop in one thread of its own, so that an engine's connections live as long as the process and a
program with a loop of its own, a notebook for instance, can use the synchronous names too.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Coroutine, Iterator
from functools import lru_cache
from typing import Any, TypeVar

_Given = TypeVar("_Given")


def run(work: Coroutine[Any, Any, _Given]) -> _Given:
    """What the work comes to. Interrupting the wait cancels the work."""
    future = asyncio.run_coroutine_threadsafe(work, _loop())
    try:
        return future.result()
    finally:
        # Nothing happens to work that is done; work that nobody waits for any more stops.
        future.cancel()


def iterate(steps: AsyncGenerator[_Given, None]) -> Iterator[_Given]:
    """The same steps, one at a time; leaving early closes their source."""
    try:
        while (step := run(_next(steps))) is not None:
            yield step[0]
    finally:
        run(steps.aclose())


async def _next(steps: AsyncGenerator[_Given, None]) -> tuple[_Given] | None:
    async for step in steps:
        return (step,)
    return None


@lru_cache(maxsize=1)
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="ferrule", daemon=True).start()
    return loop
