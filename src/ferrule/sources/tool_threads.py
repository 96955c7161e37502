"""ToolThreads: runs plain functions in threads, bounded per tool and per tenant. Knows nothing of schemas or outcomes.

A thread cannot be killed. So a function that never returns keeps its thread, and what it may keep is bounded: the
threads of one tool and one tenant, and those of one tenant. Other tools and other tenants have threads of their own. A
call that finds no free thread waits for a short time and is then refused; it is refused at once if nothing can become
free, because all threads are hung.

The threads are daemons and not those of `concurrent.futures`, which the interpreter joins when it ends: a function that
hangs must not keep a program from ending.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ferrule.sources.status import ToolLoad

THREADS = 16
"""How many calls of one tool may run at once for one tenant, if nothing else is set."""
TENANT_THREADS = 64
"""How many calls of all tools of a source may run at once for one tenant, if nothing else is set."""
_WAIT_SECONDS = 1.0
"""How long a call waits for a free thread: enough for a burst of short calls."""
_IDLE_SECONDS = 30.0
"""How long a thread without work is kept. A source that nobody closes keeps none for longer."""

_Jobs: TypeAlias = "queue.SimpleQueue[Callable[[], None] | None]"


@dataclass(eq=False, slots=True)
class ThreadSlot:
    """The right of one call to a thread. `deadline` is in Unix seconds."""

    tool: str
    tenant: str
    deadline: float | None

    def is_hung(self, now: float) -> bool:
        return self.deadline is not None and now >= self.deadline


@dataclass(eq=False, slots=True)
class _Waiter:
    slot: ThreadSlot
    loop: asyncio.AbstractEventLoop
    granted: asyncio.Future[None]

    @property
    def is_granted(self) -> bool:
        """Whether it got its slot, possibly in the same moment in which it stopped waiting."""
        return self.granted.done() and not self.granted.cancelled()


@dataclass(frozen=True, slots=True)
class Busy:
    """Why a call gets no thread."""

    reason: str


@dataclass(slots=True)
class _Pool:
    """What one tenant uses."""

    slots: list[ThreadSlot] = field(default_factory=list[ThreadSlot])
    waiters: list[_Waiter] = field(default_factory=list[_Waiter])

    def of(self, tool: str) -> list[ThreadSlot]:
        return [slot for slot in self.slots if slot.tool == tool]


class ToolThreads:
    """The threads of one source. `per_tool` bounds those of one tool and tenant, `per_tenant` all of one tenant.

    `of` is what a refusal says is busy.

    Example:
        slot = await threads.acquire("get_weather", "acme", deadline)
        if not isinstance(slot, Busy):
            value = await threads.run(slot, lambda: get_weather(city="Paris"))
    """

    def __init__(self, per_tool: int, per_tenant: int, *, name: str = "tool", of: str = "threads") -> None:
        self._per_tool, self._per_tenant = per_tool, per_tenant
        self._name, self._of = name, of
        self._pools: dict[str, _Pool] = {}
        self._idle: list[_Jobs] = []
        self._is_closed = False
        # Threads, and callers in several event loops, use the same pools.
        self._lock = threading.Lock()

    @property
    def loads(self) -> tuple[ToolLoad, ...]:
        """How many threads each tool uses now, and how many of them are hung."""
        now = time.time()
        with self._lock:
            slots = [slot for pool in self._pools.values() for slot in pool.slots]
        running = Counter(slot.tool for slot in slots)
        hung = Counter(slot.tool for slot in slots if slot.is_hung(now))
        return tuple(ToolLoad(tool, count, hung[tool]) for tool, count in running.items())

    def hung(self, tool: str, tenant: str) -> Busy | None:
        """Why no call can get a thread, as long as no hung function returns; None if one can, now or soon."""
        with self._lock:
            pool = self._pools.get(tenant)
            return None if pool is None or self._has_room(pool, tool) else self._hung(pool, tool)

    async def acquire(self, tool: str, tenant: str, deadline: float | None) -> ThreadSlot | Busy:
        """Take a slot for a call, which `run` releases. Waits for a moment if there is none."""
        slot = ThreadSlot(tool, tenant, deadline)
        with self._lock:
            pool = self._pools.setdefault(tenant, _Pool())
            if self._has_room(pool, tool):
                pool.slots.append(slot)
                return slot
            busy = self._hung(pool, tool)
            if busy is not None:
                return busy
            loop = asyncio.get_running_loop()
            waiter = _Waiter(slot, loop, loop.create_future())
            pool.waiters.append(waiter)
        try:
            async with asyncio.timeout(_wait_seconds(deadline)):
                await waiter.granted
        except TimeoutError:
            if not waiter.is_granted:
                with self._lock:
                    return self._busy(pool, tool)
        except asyncio.CancelledError:
            if waiter.is_granted:
                self._release(slot)
            raise
        finally:
            with self._lock:
                if waiter in pool.waiters:
                    pool.waiters.remove(waiter)
        return slot

    async def run(self, slot: ThreadSlot, work: Callable[[], Any]) -> Any:
        """Run the function in a thread and return what it returns. Cancelling does not stop the function."""
        loop = asyncio.get_running_loop()
        finished: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()

        def job() -> None:
            ending: tuple[Any, BaseException | None]
            try:
                ending = (work(), None)
            # A tool's code may raise anything, also `SystemExit`, and its caller gets it.
            except BaseException as error:
                ending = (None, error)
            self._release(slot)
            _call_in(loop, lambda: None if finished.done() else finished.set_result(ending))

        self._start(job)
        try:
            # Not the future's own exception: a future cannot hold `StopIteration`.
            value, error = await finished
        except asyncio.CancelledError:
            if slot.deadline is None:
                # Nobody waits for it any more, so it is hung from now on.
                slot.deadline = time.time()
            raise
        if error is not None:
            raise error
        return value

    def close(self) -> None:
        """End the threads without work. The others end when their function returns, or with the process."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for jobs in idle:
            jobs.put(None)

    def _has_room(self, pool: _Pool, tool: str) -> bool:
        if self._is_closed or len(pool.slots) >= self._per_tenant:
            return False
        return len(pool.of(tool)) < self._per_tool

    def _hung(self, pool: _Pool, tool: str) -> Busy | None:
        full = pool.of(tool) if len(pool.slots) < self._per_tenant else pool.slots
        now = time.time()
        return self._busy(pool, tool) if self._is_closed or all(one.is_hung(now) for one in full) else None

    def _busy(self, pool: _Pool, tool: str) -> Busy:
        if self._is_closed:
            return Busy("the source is closed")
        is_tenant = len(pool.slots) >= self._per_tenant
        slots = pool.slots if is_tenant else pool.of(tool)
        hung = sum(slot.is_hung(time.time()) for slot in slots)
        whose = "the tenant" if is_tenant else f"the tool {tool!r}"
        state = f"; {hung} of their calls did not return by their deadline" if hung else ""
        return Busy(f"all {len(slots)} {self._of} of {whose} are busy{state}")

    def _release(self, slot: ThreadSlot) -> None:
        """Give the slot back, and pass it on to the first waiting call that may have one."""
        with self._lock:
            pool = self._pools[slot.tenant]
            pool.slots.remove(slot)
            self._grant(pool)
            if not pool.slots and not pool.waiters:
                del self._pools[slot.tenant]

    def _grant(self, pool: _Pool) -> None:
        waiter = next((one for one in pool.waiters if self._has_room(pool, one.slot.tool)), None)
        if waiter is None:
            return
        pool.waiters.remove(waiter)
        pool.slots.append(waiter.slot)
        if not _call_in(waiter.loop, lambda: self._notify(waiter)):
            pool.slots.remove(waiter.slot)
            self._grant(pool)

    def _notify(self, waiter: _Waiter) -> None:
        if waiter.granted.done():
            # It stopped waiting in the meantime.
            self._release(waiter.slot)
        else:
            waiter.granted.set_result(None)

    def _start(self, job: Callable[[], None]) -> None:
        with self._lock:
            jobs: _Jobs | None = self._idle.pop() if self._idle else None
        if jobs is None:
            jobs = queue.SimpleQueue()
            threading.Thread(target=self._work, args=(jobs,), name=self._name, daemon=True).start()
        jobs.put(job)

    def _work(self, jobs: _Jobs) -> None:
        """The main function of a thread."""
        while (job := self._next(jobs)) is not None:
            job()
            del job
            with self._lock:
                if self._is_closed:
                    return
                self._idle.append(jobs)

    def _next(self, jobs: _Jobs) -> Callable[[], None] | None:
        try:
            return jobs.get(timeout=_IDLE_SECONDS)
        except queue.Empty:
            with self._lock:
                if jobs in self._idle:
                    self._idle.remove(jobs)
                    return None
            # Somebody took this thread at the last moment.
            return jobs.get()


def _wait_seconds(deadline: float | None) -> float:
    """How long to wait: never up to the deadline, so that the caller learns that the call did not run."""
    return _WAIT_SECONDS if deadline is None else max(0.0, min(_WAIT_SECONDS, (deadline - time.time()) / 2))


def _call_in(loop: asyncio.AbstractEventLoop, callback: Callable[[], object]) -> bool:
    """Call it in the loop's thread. False if the loop is closed, and nobody waits there any more."""
    try:
        loop.call_soon_threadsafe(callback)
    except RuntimeError:
        return False
    return True
