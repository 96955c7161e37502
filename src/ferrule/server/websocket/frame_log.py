"""FrameLog: the last frames of a turn, numbered, and how far a connection has read them. Knows no socket.

It is the queue to the reader too, so that nothing is kept twice. Whoever writes waits while the reader is half a log
behind; without a reader the oldest frames make room, and who comes back for them is told so.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from ferrule.dialects.frames.codec import Numbered, encode_text
from ferrule.dialects.frames.server_frames import Outgoing
from ferrule.errors import DefinitionError, NotFoundError


@dataclass(slots=True)
class Reading:
    """A connection's place in a turn: everything up to `at` was taken. `wake` is told when there is more."""

    log: FrameLog
    wake: Callable[[], None]
    at: int
    unread: int = 0
    """In bytes."""
    is_lost: bool = False
    """Another connection reads on."""

    def next(self) -> str | None:
        return self.log.taken(self)

    @property
    def is_over(self) -> bool:
        return self.is_lost or (self.log.is_ended and self.at >= self.log.last)


@dataclass(slots=True)
class FrameLog:
    """`most` is how many bytes are kept; the frame that was written last is kept whatever its length."""

    turn: str
    most: int
    last: int = 0
    """The number of the last frame; they count from 1."""
    bytes: int = 0
    is_ended: bool = False
    reading: Reading | None = None
    _kept: deque[tuple[str, int]] = field(default_factory=deque[tuple[str, int]])
    _has_room: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def first(self) -> int:
        """The number of the oldest frame that is kept."""
        return self.last - len(self._kept) + 1

    def add(self, frame: Outgoing) -> None:
        self.last += 1
        text = encode_text(Numbered(self.turn, self.last, frame))
        size = len(text) if text.isascii() else len(text.encode())
        self._kept.append((text, size))
        self.bytes += size
        if self.reading is not None:
            self.reading.unread += size
            self.reading.wake()
        self._trim()

    def end(self) -> None:
        """No frame will follow."""
        self.is_ended = True
        if self.reading is not None:
            self.reading.wake()

    @property
    def is_full(self) -> bool:
        """Whether there is a reader, and it is behind."""
        return self.reading is not None and self.reading.unread > self.most // 2

    async def room(self) -> None:
        """Until the reader has caught up, or is gone."""
        while self.is_full:
            self._has_room.clear()
            await self._has_room.wait()

    def attach(self, after: int, wake: Callable[[], None]) -> Reading:
        """A reader of everything from the frame after `after` on. Whoever read before is lost: one reads a turn."""
        if not 0 <= after <= self.last:
            raise DefinitionError(
                f"the turn has no frame {after}", hint=f"Resume after one of 0 to {self.last}, the last that was sent."
            )
        if after < self.first - 1:
            raise NotFoundError(
                f"the frames before {self.first} are kept no longer",
                code="frames_gone",
                hint=f"Resume after {self.first - 1} for the rest, or ask anew.",
            )
        if self.reading is not None:
            self.reading.is_lost = True
            self.reading.wake()
        missed = list(self._kept)[after - self.first + 1 :]
        self.reading = Reading(self, wake, after, sum(size for _, size in missed))
        self._has_room.set()
        return self.reading

    def detach(self, reading: Reading) -> None:
        """The connection is gone."""
        if self.reading is reading:
            self.reading = None
            self._has_room.set()
            self._trim()

    def taken(self, reading: Reading) -> str | None:
        """The reader's next frame; None where there is none yet."""
        if self.reading is not reading or reading.at >= self.last:
            return None
        # From the end, where readers are: a deque is slow in its middle.
        text, size = self._kept[reading.at - self.last]
        reading.at += 1
        reading.unread -= size
        if reading.unread <= self.most // 2:
            self._has_room.set()
        return text

    def _trim(self) -> None:
        while self.bytes > self.most and len(self._kept) > 1:
            if self.reading is not None and self.first > self.reading.at:
                return
            self.bytes -= self._kept.popleft()[1]
