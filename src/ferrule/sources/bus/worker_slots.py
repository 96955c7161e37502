"""WorkerSlots: which worker gets a call. It counts the calls of this caller at each worker, and knows no frames.

A worker takes `cap` calls at once. A call goes to the worker with the smallest share of its slots in use, so a worker
that is slow gets fewer calls: its slots are in use for longer. If no worker has a free slot, calls wait in the order in
which they came, and a call that ends hands its slot to the first of them. Other callers use the same workers, so a
worker may be busy although its slots seem free. It then gets no call from here for a moment.

A worker that fell silent during a call gets no others until something is heard from it again, unless no other is left.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from ferrule.sources.bus.directory import KnownWorker

_PAUSE = 0.001
_MAX_DOUBLINGS = 6
_ENOUGH_WORKERS = 8
"""Of very many workers, so many with a free slot are compared."""


class WorkerSlots:
    """The slots of the known workers. Every worker that `take` or `wait` returns is given back with `release`."""

    def __init__(self) -> None:
        self._turn = 0

    def take(self, workers: Sequence[KnownWorker]) -> KnownWorker | None:
        """Take a slot of the worker with the most free slots; None if no worker has one."""
        if len(workers) == 1:
            best = workers[0] if _has_free_slot(workers[0], time.monotonic()) else None
        else:
            best = self._best([worker for worker in workers if not worker.is_silent] or workers)
        if best is not None:
            best.running += 1
        return best

    async def wait(self, workers: Sequence[KnownWorker], seconds: float) -> KnownWorker | None:
        """Wait for a slot; None if it is time to look again, at the latest after `seconds`."""
        now = time.monotonic()
        pauses = [worker.busy_until - now for worker in workers if worker.busy_until > now]
        waiter: asyncio.Future[KnownWorker] = asyncio.get_running_loop().create_future()
        for worker in workers:
            worker.waiters[waiter] = None
        try:
            await asyncio.wait((waiter,), timeout=min([seconds, *pauses]))
        except asyncio.CancelledError:
            if waiter.done():
                self.release(waiter.result())
            raise
        finally:
            for worker in workers:
                worker.waiters.pop(waiter, None)
        return waiter.result() if waiter.done() else None

    def release(self, worker: KnownWorker) -> None:
        """Give a slot back, to the call that has waited for it the longest."""
        worker.busy_count = 0
        waiter = next((waiter for waiter in worker.waiters if not waiter.done()), None)
        if waiter is None or worker.is_silent or worker.is_unreachable:
            worker.running -= 1
        else:
            del worker.waiters[waiter]
            waiter.set_result(worker)

    def release_busy(self, worker: KnownWorker) -> None:
        """Give back a slot that the worker did not have. The more often that happens, the longer the worker rests."""
        worker.running -= 1
        worker.busy_until = time.monotonic() + _PAUSE * 2 ** min(worker.busy_count, _MAX_DOUBLINGS)
        worker.busy_count += 1

    def _best(self, workers: Sequence[KnownWorker]) -> KnownWorker | None:
        # Each call begins at another worker, so that equal workers take turns.
        self._turn += 1
        best, best_load, compared, now = None, 0.0, 0, time.monotonic()
        for offset in range(len(workers)):
            worker = workers[(self._turn + offset) % len(workers)]
            if not _has_free_slot(worker, now):
                continue
            load = (worker.running + 1) / worker.cap
            if best is None or load < best_load:
                best, best_load = worker, load
            compared += 1
            if compared == _ENOUGH_WORKERS:
                break
        return best


def _has_free_slot(worker: KnownWorker, now: float) -> bool:
    return worker.running < worker.cap and worker.busy_until <= now
