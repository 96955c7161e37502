"""FrameLog: the last frames of a turn, numbered, and how far a connection has read them. Independent of the socket.

It also serves as the queue to the reader, so that nothing is stored twice. The writer waits while the reader is half a
log behind. Without a reader the oldest frames are dropped, and a client that resumes too late gets an error.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from ferrule.dialects.frames.codec import NumberedFrame, encode_frame_text
from ferrule.dialects.frames.server_frames import ServerFrame
from ferrule.errors import DefinitionError, NotFoundError


@dataclass(slots=True)
class LogReader:
    """A connection's position in a log: it has read the frames up to `position`. `wake` announces more."""

    log: FrameLog
    wake: Callable[[], None]
    position: int
    unread_bytes: int = 0
    """The size of the frames that it has not read."""
    is_replaced: bool = False
    """Another connection has taken the turn over."""

    def next(self) -> str | None:
        return self.log.next_frame(self)

    @property
    def is_over(self) -> bool:
        return self.is_replaced or (self.log.is_ended and self.position >= self.log.last)


@dataclass(slots=True)
class FrameLog:
    """Keeps at most `max_bytes` of frames, and always the last frame."""

    turn: str
    max_bytes: int
    spelling: str = "ferrule"
    """How the fields of its frames are spelled (`AskFrame.spelling`)."""
    last: int = 0
    """The number of the last frame, counting from 1."""
    bytes: int = 0
    is_ended: bool = False
    reader: LogReader | None = None
    _frames: deque[tuple[str, int]] = field(default_factory=deque[tuple[str, int]])
    _has_space: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def first(self) -> int:
        """The number of the oldest frame in the log."""
        return self.last - len(self._frames) + 1

    def add(self, frame: ServerFrame) -> None:
        self.last += 1
        text = encode_frame_text(NumberedFrame(self.turn, self.last, frame), self.spelling)
        size = len(text) if text.isascii() else len(text.encode())
        self._frames.append((text, size))
        self.bytes += size
        if self.reader is not None:
            self.reader.unread_bytes += size
            self.reader.wake()
        self._trim()

    def end(self) -> None:
        """Mark the log as complete."""
        self.is_ended = True
        if self.reader is not None:
            self.reader.wake()

    @property
    def is_full(self) -> bool:
        """Whether there is a reader that is too far behind."""
        return self.reader is not None and self.reader.unread_bytes > self.max_bytes // 2

    async def wait_for_space(self) -> None:
        """Wait until the reader has caught up or is gone."""
        while self.is_full:
            self._has_space.clear()
            await self._has_space.wait()

    def attach(self, after: int, wake: Callable[[], None]) -> LogReader:
        """Return a reader of the frames after number `after`. It replaces an earlier reader: a turn has only one."""
        if not 0 <= after <= self.last:
            raise DefinitionError(
                f"the turn has no frame {after}", hint=f"Resume after one of 0 to {self.last}, the last that was sent."
            )
        if after < self.first - 1:
            raise NotFoundError(
                f"the frames before {self.first} are no longer available",
                code="frames_gone",
                hint=f"Resume after {self.first - 1} for the rest, or start a new turn.",
            )
        if self.reader is not None:
            self.reader.is_replaced = True
            self.reader.wake()
        unread = list(self._frames)[after - self.first + 1 :]
        self.reader = LogReader(self, wake, after, sum(size for _, size in unread))
        self._has_space.set()
        return self.reader

    def detach(self, reader: LogReader) -> None:
        """Remove the reader of a closed connection."""
        if self.reader is reader:
            self.reader = None
            self._has_space.set()
            self._trim()

    def next_frame(self, reader: LogReader) -> str | None:
        """Return the reader's next frame; None if there is none yet."""
        if self.reader is not reader or reader.position >= self.last:
            return None
        # Indexed from the end, where readers usually are: a deque is slow in its middle.
        text, size = self._frames[reader.position - self.last]
        reader.position += 1
        reader.unread_bytes -= size
        if reader.unread_bytes <= self.max_bytes // 2:
            self._has_space.set()
        return text

    def _trim(self) -> None:
        while self.bytes > self.max_bytes and len(self._frames) > 1:
            if self.reader is not None and self.first > self.reader.position:
                return
            self.bytes -= self._frames.popleft()[1]
