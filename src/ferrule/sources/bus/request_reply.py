"""Exchange: questions that wait for their answers, over one private inbox. Knows frames, nothing of tools or tokens.

Each call has a reply subject that nobody can guess, under a prefix that nobody else may read. A worker that runs a
call is heard from every second; one that is silent for longer than `silence` is taken for dead.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ferrule.core.context import Progress
from ferrule.errors import BusError
from ferrule.sources.bus.connection import Connection, Message
from ferrule.sources.bus.frame import Beat, Frame, Lost, Refused, read_frame

SILENCE = 3.0
_LOOKS_PER_SILENCE = 12
_NOT_SENT = Refused("not_delivered", "there is no connection to the bus", 503)
Tell = Callable[[Progress], None]


@dataclass(slots=True)
class _Waiting:
    answer: asyncio.Future[Frame]
    heard: float
    until: float
    tell: Tell

    def end(self, frame: Frame) -> None:
        if not self.answer.done():
            self.answer.set_result(frame)


class Exchange:
    """Over an open connection. `ask` may be called any number of times at once."""

    def __init__(self, connection: Connection, *, silence: float = SILENCE) -> None:
        self._connection = connection
        self._silence = silence
        self._prefix = ""
        self._waiting: dict[str, _Waiting] = {}
        self._watch: asyncio.Task[None] | None = None

    async def open(self) -> None:
        self._prefix = f"{self._connection.inbox}.{secrets.token_hex(8)}."
        await self._connection.receive(f"{self._prefix}*", self._received)
        self._watch = asyncio.create_task(self._watching())

    async def close(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)
        for waiting in self._waiting.values():
            waiting.end(Lost("the connection was closed while the call ran"))

    async def ask(
        self, subject: str, body: bytes, headers: Mapping[str, str] | None, seconds: float, tell: Tell
    ) -> Frame:
        """The last frame of one call: an answer, a refusal, or that it is lost. Beats go to `tell`."""
        reply = self._prefix + os.urandom(8).hex()
        now = time.monotonic()
        waiting = _Waiting(asyncio.get_running_loop().create_future(), now, now + seconds, tell)
        self._waiting[reply] = waiting
        try:
            if not await self._connection.send(subject, body, reply, headers):
                return _NOT_SENT
            return await waiting.answer
        finally:
            # A second answer to the same call, or one that comes too late, finds nobody waiting.
            del self._waiting[reply]

    async def _received(self, message: Message) -> None:
        waiting = self._waiting.get(message.subject)
        if waiting is None:
            return
        waiting.heard = time.monotonic()
        try:
            frame = read_frame(message.headers, message.data)
        except BusError as problem:
            waiting.end(Lost(f"what came back cannot be read: {problem.message}"))
            return
        if not isinstance(frame, Beat):
            waiting.end(frame)
        elif frame.progress is not None and not waiting.answer.done():
            waiting.tell(frame.progress)

    async def _watching(self) -> None:
        pause = self._silence / _LOOKS_PER_SILENCE
        looked = time.monotonic()
        while True:
            await asyncio.sleep(pause)
            now = time.monotonic()
            # Where this process itself stood still, what came meanwhile has not been read yet.
            overslept = max(0.0, now - looked - 2 * pause)
            looked = now
            for waiting in self._waiting.values():
                waiting.heard += overslept
                if now >= waiting.until:
                    waiting.end(Lost("the deadline passed while it ran", code="timeout"))
                elif now - waiting.heard > self._silence:
                    waiting.end(Lost(f"nothing was heard of its worker for {self._silence:g} seconds"))
