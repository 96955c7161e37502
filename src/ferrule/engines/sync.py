"""Synchronous access: the one place where synchronous code waits for asynchronous code.

Everything runs in one event loop in its own thread. So an engine's connections live as long as the process, and a
program that already runs a loop, such as a notebook, can use the synchronous functions too. What was opened in that
loop is released when its owner is garbage, or when the program ends.
"""

from __future__ import annotations

import asyncio
import atexit
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from functools import lru_cache
from types import TracebackType
from typing import Any, Self, TypeVar

_T = TypeVar("_T")
_Release = Callable[[], Coroutine[Any, Any, None]]

_EXIT_SECONDS = 2.0
_finalizers: set[weakref.finalize[[_Release], object]] = set()


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


class Closable(ABC):
    """Something to close: with `async with`, with `with` in a synchronous program, or by hand."""

    @abstractmethod
    async def close(self) -> None:
        """Release what is held, such as connections."""

    def close_sync(self) -> None:
        """Call `close` from a synchronous program."""
        run(self.close())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close_sync()


def release_with(owner: object, loop: asyncio.AbstractEventLoop, release: _Release) -> None:
    """Call `release` in the loop of this module once `owner` is garbage, or when the program ends.

    Does nothing for any other loop: who runs a loop also closes what is open in it.
    """
    is_started = _loop.cache_info().currsize > 0
    if not is_started or loop is not _loop():
        return
    finalizer = weakref.finalize(owner, _release_later, release)
    finalizer.atexit = False
    _finalizers.difference_update([each for each in _finalizers if not each.alive])
    _finalizers.add(finalizer)


def _release_later(release: _Release) -> None:
    asyncio.run_coroutine_threadsafe(release(), _loop())


def _stop(loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    """Release what is open, and stop the loop. Runs when the program ends, which must not wait for long."""

    async def release_all() -> None:
        releases = [detached[2][0] for each in _finalizers if (detached := each.detach())]
        if releases:
            await asyncio.wait([asyncio.ensure_future(release()) for release in releases], timeout=_EXIT_SECONDS)

    run(release_all())
    loop.call_soon_threadsafe(loop.stop)
    thread.join(_EXIT_SECONDS)
    if not thread.is_alive():
        loop.close()


async def _next(steps: AsyncGenerator[_T, None]) -> tuple[_T] | None:
    async for step in steps:
        return (step,)
    return None


@lru_cache(maxsize=1)
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="ferrule", daemon=True)
    thread.start()
    atexit.register(_stop, loop, thread)
    return loop
