"""The calls that a worker runs: heard of every second, with their progress, and ended at their deadline.

Knows frames and time, nothing of tools, tokens or subjects.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from ferrule.core.context import Progress
from ferrule.sources.bus.frame import Beat, Frame

BEAT_SECONDS = 1.0
_log = logging.getLogger(__name__)
_PROGRESS_SECONDS = 0.1
_ENDS = (asyncio.CancelledError, KeyboardInterrupt, SystemExit, GeneratorExit)
Say = Callable[[str, Frame], Awaitable[None]]


@dataclass(slots=True)
class RunningCall:
    """One call. `news` is progress that has not been sent yet; `is_late` says that its deadline ended it."""

    reply: str
    loop: asyncio.AbstractEventLoop
    hear: Callable[[RunningCall, Progress], None]
    until: float = 0.0
    task: asyncio.Task[None] | None = None
    is_late: bool = False
    news: Progress | None = None
    told: float = 0.0

    def tell(self, progress: Progress) -> None:
        """For the tool. A plain function runs in a thread of its own, so it is heard in the loop's thread."""
        self.loop.call_soon_threadsafe(self.hear, self, progress)


class RunningCalls:
    """`say` sends a frame to a place. One clock beats for all calls, so that a short call costs nothing of it."""

    def __init__(self, say: Say, *, beat: float = BEAT_SECONDS) -> None:
        self._say = say
        self._beat = beat
        # By identity: a caller may give two calls one place to answer to.
        self._held: dict[int, RunningCall] = {}
        self._telling: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._held)

    def new(self, reply: str) -> RunningCall:
        """A call that has not begun."""
        return RunningCall(reply, asyncio.get_running_loop(), self._hear)

    def start(self, call: RunningCall, until: float, work: Coroutine[Any, Any, None]) -> None:
        call.until = until
        self._held[id(call)] = call
        call.task = call.loop.create_task(work)

    def end(self, call: RunningCall) -> None:
        del self._held[id(call)]

    async def beating(self) -> None:
        """Runs for as long as the worker does."""
        while True:
            await asyncio.sleep(self._beat)
            now = time.time()
            for call in list(self._held.values()):
                if now >= call.until and call.task is not None:
                    call.is_late = True
                    call.task.cancel()
                else:
                    await self._tell(call)

    async def finished(self, seconds: float) -> None:
        """Comes back when nothing runs any more; what takes longer is cancelled."""
        tasks = [call.task for call in self._held.values() if call.task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, *self._telling, return_exceptions=True)

    def _hear(self, call: RunningCall, progress: Progress) -> None:
        call.news = progress
        if time.monotonic() - call.told >= _PROGRESS_SECONDS and id(call) in self._held:
            call.told = time.monotonic()
            telling = asyncio.create_task(self._tell(call))
            self._telling.add(telling)
            telling.add_done_callback(self._telling.discard)

    async def _tell(self, call: RunningCall) -> None:
        news, call.news = call.news, None
        if news is not None:
            call.told = time.monotonic()
        await self._say(call.reply, Beat(news))


class Breakdowns:
    """Around the work of a call: what it raises is logged where the worker runs, and told nowhere else.

    Its words may hold what no caller should read.
    """

    __slots__ = ()

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        if error is None or isinstance(error, _ENDS):
            return False
        _log.error("a call broke down", exc_info=error)
        return True
