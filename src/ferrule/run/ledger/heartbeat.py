"""Heartbeat: a process's signs of life, from a thread. Conversations that it keeps are held for as long as they come.

The problem
    A lease must be renewed while its conversation is in use. Renewed one by one, ten thousand conversations that wait
    for a model or a person are three thousand writes a second that say nothing new.

The shape
    - A conversation is opened with a lease of its own, and a short turn never renews it. A longer one is *kept*: its
      `lease_until` becomes WHILE_ALIVE, once, and from then on its owner's row says until when it is held.
    - That row is written every third of a lease, for all conversations of the process together, and only while there
      are any. It is written from a thread: an event loop that computes for a while must not lose its conversations.
      But a loop that does nothing for `_HUNG_SECONDS` is taken for dead, and its conversations may be taken over.
    - It is no fence. A process that slept for too long, and says that it is alive again, still cannot write to a
      conversation that was taken over meanwhile: that is in another epoch (`step`). So nobody need declare it dead.
    - A process of an earlier release compares only `lease_until`, and leaves a conversation that is kept alone.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Protocol

from ferrule.errors import LedgerError
from ferrule.run.ledger.held_conversations import HeldConversations
from ferrule.run.ledger.transaction import Transaction, execute

_BEATS = 3
"""How often a sign of life is given in the time of a lease."""
_HUNG_SECONDS = 60.0
_FORGOTTEN_SECONDS = 86_400.0


class Beat(Protocol):
    """Writes until when an owner is alive. It is used in one thread, and blocks it."""

    def __call__(self, owner: str, until: float) -> None: ...

    def close(self) -> None: ...


class Heartbeat:
    """The signs of life of one owner. They are given while it keeps any conversation."""

    def __init__(
        self,
        held: HeldConversations,
        owner: str,
        lease: float,
        clock: Callable[[], float],
        open_beat: Callable[[], Beat],
    ) -> None:
        self._held = held
        self._owner = owner
        self._lease = lease
        self._clock = clock
        self._open_beat = open_beat
        self._first: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._loop_seen_at = 0.0
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    async def begin(self, write: Callable[[float], Awaitable[None]]) -> None:
        """Return when others know that the owner is alive. The thread gives the further signs."""
        loop = asyncio.get_running_loop()
        if self._thread is None or not self._thread.is_alive() or self._loop is not loop:
            self._loop = loop
            self._see_loop()
            self._thread = threading.Thread(target=self._run, args=(loop,), name="ferrule-heartbeat", daemon=True)
            self._thread.start()
        # The thread gives none while nothing is kept. The next one must still come in time.
        if self._held.alive_until.get(self._owner, 0.0) - self._clock() < self._lease / 2:
            if self._first is None or self._first.done():
                self._first = asyncio.ensure_future(self._write_first(write))
            await asyncio.shield(self._first)

    async def stop(self) -> None:
        self._stop.set()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join, self._lease)

    async def _write_first(self, write: Callable[[float], Awaitable[None]]) -> None:
        until = self._clock() + self._lease
        await write(until)
        self._held.alive_until[self._owner] = until

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        beat = self._open_beat()
        try:
            while not self._stop.wait(self._lease / _BEATS):
                try:
                    loop.call_soon_threadsafe(self._see_loop)
                except RuntimeError:
                    # The loop is closed: nothing of this process is under way.
                    return
                is_hung = time.monotonic() - self._loop_seen_at > _HUNG_SECONDS
                if not is_hung and self._held.keeps_any(self._owner):
                    self._give_sign(beat)
        finally:
            beat.close()

    def _give_sign(self, beat: Beat) -> None:
        until = self._clock() + self._lease
        try:
            beat(self._owner, until)
        except LedgerError:
            # The database may be back before the lease expires. If not, the next write of the process fails.
            return
        self._held.alive_until[self._owner] = until

    def _see_loop(self) -> None:
        self._loop_seen_at = time.monotonic()


def beat(owner: str, until: float, now: float) -> Transaction[None]:
    """Write the first sign of life of an owner, and forget those that have been dead for long."""
    yield from execute("beat", owner, until)
    yield from execute("forget_owners", now - _FORGOTTEN_SECONDS)
