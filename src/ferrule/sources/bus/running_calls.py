"""The calls that a worker is running. Each sends a heartbeat every second, with its progress, and ends at its deadline.

A call whose answer is wanted piece by piece also ends when its caller cancels it, or is gone. This module knows frames
and time, nothing of tools, tokens or subjects.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from ferrule.core.context import Progress
from ferrule.sources.bus.frame import Frame, Heartbeat, StreamItem
from ferrule.sources.bus.subject import call_id_of

HEARTBEAT_SECONDS = 1.0
_PROGRESS_SECONDS = 0.1
SendFrame = Callable[[str, Frame, str], Awaitable[None]]


@dataclass(slots=True)
class RunningCall:
    """One call. `pending_progress` has not been sent yet; `is_late` means that the deadline ended the call.

    `cancel_subject` is set for a call that may be cancelled: one whose answer is wanted piece by piece.
    """

    reply: str
    loop: asyncio.AbstractEventLoop
    on_progress: Callable[[RunningCall, Progress], None]
    deadline: float = 0.0
    task: asyncio.Task[None] | None = None
    is_late: bool = False
    pending_progress: Progress | None = None
    reported_at: float = 0.0
    cancel_subject: str = ""
    items: int = 0
    is_cancelled: bool = False

    def cancel(self) -> None:
        """End the call, because nobody reads its answer any more."""
        if self.task is not None and not self.is_cancelled:
            self.is_cancelled = True
            self.task.cancel()

    def report(self, progress: Progress) -> None:
        """Report progress. A plain function runs in its own thread, so this hands over to the event loop's thread."""
        self.loop.call_soon_threadsafe(self.on_progress, self, progress)


class RunningCalls:
    """All running calls. `send` sends a frame to a reply subject.

    One timer serves all calls, so that a short call pays nothing for heartbeats.
    """

    def __init__(self, send: SendFrame, *, heartbeat: float = HEARTBEAT_SECONDS) -> None:
        self._send = send
        self._heartbeat = heartbeat
        # By identity: a caller may use one reply subject for two calls.
        self._calls: dict[int, RunningCall] = {}
        self._report_tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._calls)

    def cancel(self, id: str) -> None:
        """Cancel the call with this id, if it runs here and may be cancelled."""
        for call in self._calls.values():
            if call.cancel_subject and call_id_of(call.reply) == id:
                call.cancel()
                return

    async def send_item(self, call: RunningCall, item: Any) -> None:
        call.items += 1
        await self._send(call.reply, StreamItem(call.items - 1, item), "")

    async def send_last_progress(self, call: RunningCall) -> None:
        """Send what was reported too shortly after an earlier report, before the answer follows."""
        if call.pending_progress is not None:
            await self._send_heartbeat(call)

    def new(self, reply: str) -> RunningCall:
        """A call that has not started."""
        return RunningCall(reply, asyncio.get_running_loop(), self._on_progress)

    def start(self, call: RunningCall, deadline: float, work: Coroutine[Any, Any, None]) -> None:
        call.deadline = deadline
        self._calls[id(call)] = call
        call.task = call.loop.create_task(work)

    def end(self, call: RunningCall) -> None:
        del self._calls[id(call)]

    async def run_heartbeat(self) -> None:
        """Send heartbeats and cancel late calls, for as long as the worker runs."""
        while True:
            await asyncio.sleep(self._heartbeat)
            now = time.time()
            for call in list(self._calls.values()):
                if now >= call.deadline and call.task is not None:
                    call.is_late = True
                    call.task.cancel()
                else:
                    await self._send_heartbeat(call)

    async def wait_until_done(self, seconds: float) -> None:
        """Wait until no call runs. Calls that take longer than `seconds` are cancelled."""
        tasks = [call.task for call in self._calls.values() if call.task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, *self._report_tasks, return_exceptions=True)

    def _on_progress(self, call: RunningCall, progress: Progress) -> None:
        call.pending_progress = progress
        if time.monotonic() - call.reported_at >= _PROGRESS_SECONDS and id(call) in self._calls:
            call.reported_at = time.monotonic()
            task = asyncio.create_task(self._send_heartbeat(call))
            self._report_tasks.add(task)
            task.add_done_callback(self._report_tasks.discard)

    async def _send_heartbeat(self, call: RunningCall) -> None:
        progress, call.pending_progress = call.pending_progress, None
        if progress is not None:
            call.reported_at = time.monotonic()
        # If the caller's process is gone, NATS says on this subject that nobody listens.
        await self._send(call.reply, Heartbeat(progress), call.cancel_subject)
