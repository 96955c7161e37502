"""StepWriter: writes the steps of a process, as many together as are waiting. Independent of the database.

A commit waits for the disk, and that takes longer than everything else. So steps that arrive while a write is on its
way are written together by the next one. Alone, a step is written at once. A write that takes long, because it waits
for a lock or for a database that is gone, holds up only the steps in it.

Each caller gets the result of its own step. Two steps of the same conversation are never in one write: the second is
compared with what the first has left. If a write fails because of what is in it, its steps are written again one by
one, so that only the one at fault fails.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from ferrule.errors import LedgerError, LedgerUnavailableError
from ferrule.run.ledger.step import Step

_MAX_STEPS = 64
_WRITERS = 2
_LONG_WRITE = 0.05
"""After so many seconds another write is begun beside one that has not ended: it may wait for somebody's lock.

Not before that: one write for all steps that wait costs less, and is not slower, than two for half of them each.
"""


class StepWriter:
    """`write_steps` writes steps of different conversations and returns the numbers of those that were written."""

    def __init__(self, write_steps: Callable[[Sequence[Step]], Awaitable[set[int]]]) -> None:
        self._write_steps = write_steps
        self._waiting: list[tuple[Step, asyncio.Future[bool]]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._in_flight: set[str] = set()
        self._timer: asyncio.TimerHandle | None = None

    async def write(self, step: Step) -> bool:
        """Write a step. False if the conversation has changed since it was read.

        A caller that is cancelled does not stop the write.
        """
        done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.append((step, done))
        self._begin()
        return await done

    async def close(self) -> None:
        """Wait until everything that was handed over is written."""
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _begin(self) -> None:
        """Begin a write of what waits, now or when the one that is on its way has taken too long."""
        if not self._tasks:
            self._begin_write()
        elif self._waiting and self._timer is None and len(self._tasks) < _WRITERS:
            self._timer = asyncio.get_running_loop().call_later(_LONG_WRITE, self._begin_late)

    def _begin_late(self) -> None:
        self._timer = None
        if len(self._tasks) < _WRITERS:
            self._begin_write()

    def _begin_write(self) -> None:
        if batch := self._next_batch():
            task = asyncio.ensure_future(self._write(batch))
            self._tasks.add(task)
            task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._begin()

    def _next_batch(self) -> list[tuple[Step, asyncio.Future[bool]]]:
        """Take the steps of conversations of which none is on its way, sorted: two processes then cannot deadlock."""
        batch: dict[str, tuple[Step, asyncio.Future[bool]]] = {}
        rest: list[tuple[Step, asyncio.Future[bool]]] = []
        for one in self._waiting:
            id = one[0].record.id
            is_possible = id not in self._in_flight and id not in batch and len(batch) < _MAX_STEPS
            if is_possible:
                batch[id] = one
            else:
                rest.append(one)
        self._waiting = rest
        self._in_flight |= batch.keys()
        return [batch[id] for id in sorted(batch)]

    async def _write(self, batch: list[tuple[Step, asyncio.Future[bool]]]) -> None:
        try:
            try:
                written = await self._write_steps([step for step, _ in batch])
            except LedgerUnavailableError:
                raise
            except LedgerError:
                if len(batch) == 1:
                    raise
                for one in batch:
                    await self._write_alone(one)
                return
            for number, (_, done) in enumerate(batch):
                _settle(done, number in written)
        # Whatever it is belongs to those who wait for these steps; none of them may wait for ever.
        except BaseException as error:
            for _, done in batch:
                _fail(done, error)
            if not isinstance(error, Exception):
                raise
        finally:
            self._in_flight -= {step.record.id for step, _ in batch}

    async def _write_alone(self, one: tuple[Step, asyncio.Future[bool]]) -> None:
        step, done = one
        try:
            _settle(done, 0 in await self._write_steps([step]))
        except LedgerError as error:
            _fail(done, error)


def _settle(done: asyncio.Future[bool], is_written: bool) -> None:
    if not done.done():
        done.set_result(is_written)


def _fail(done: asyncio.Future[bool], error: BaseException) -> None:
    if not done.done():
        # Nobody may be waiting any more: then nobody needs the error.
        done.set_exception(error if isinstance(error, Exception) else asyncio.CancelledError())
        done.exception()
