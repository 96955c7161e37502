"""RequestReply: requests that wait for their replies in one private inbox. It knows frames, nothing of tools or tokens.

Each call has a reply subject that nobody can guess, under a prefix that no other client may read. A worker sends a
heartbeat every second while a call runs. After `heartbeat_timeout` seconds without one it counts as dead, or after
`stream_heartbeat_timeout` if the answer comes in pieces. A piece that is missing ends the request.
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ferrule.core.context import Progress
from ferrule.errors import BusError
from ferrule.sources.bus.connection import Connection, Message
from ferrule.sources.bus.frame import (
    Frame,
    Heartbeat,
    Rejection,
    StreamItem,
    UnknownOutcome,
    counted_items,
    read_frame,
)
from ferrule.sources.bus.subject import call_id_of

HEARTBEAT_TIMEOUT = 3.0
STREAM_HEARTBEAT_TIMEOUT = 15.0
"""For answers in pieces. They come from models, and a machine that reads a long prompt sends its heartbeats late."""
_CHECKS_PER_TIMEOUT = 12
_BEFORE_BEGIN = (404, 429)
"""The statuses of a rejection after which a call is sent to another worker."""
UNHEARD = "unheard"
"""The code of an unknown outcome of a worker that fell silent. It is not shown to callers."""
_NOT_PERMITTED = Rejection("not_delivered", "NATS does not permit this caller to publish there", 403)
_NOT_SENT = Rejection("not_delivered", "there is no connection to the bus", 503)
_REFUSED_PUBLISH = re.compile(r'permissions violation for publish to "([^"]+)"', re.IGNORECASE)
_WORKER_SUBJECT_DOTS = 5
_ID_BYTES, _IDS_AT_A_TIME = 8, 256
ProgressCallback = Callable[[Progress], None]
ItemCallback = Callable[[Any], None]


def _ignore_item(item: Any) -> None:
    """The default: the answer is read whole."""


@dataclass(slots=True)
class _PendingRequest:
    answer: asyncio.Future[Frame]
    last_heard_at: float
    deadline: float
    on_progress: ProgressCallback
    heartbeat_timeout: float
    subject: str
    on_item: ItemCallback = _ignore_item
    items: int = 0
    is_begun: bool = False
    """Whether the worker has sent a heartbeat or a piece of the answer."""
    refusals: int = 0
    """How many messages to its subject NATS refused since it was sent."""

    def finish(self, frame: Frame) -> None:
        if not self.answer.done():
            self.answer.set_result(frame)

    def take(self, item: StreamItem) -> None:
        if self.answer.done():
            return
        if item.index != self.items:
            self.finish(self.lost_piece())
            return
        self.items += 1
        self.on_item(item.value)

    def lost_piece(self) -> UnknownOutcome:
        return UnknownOutcome(f"piece {self.items} of the answer was lost")


class _RandomIds:
    """Ids that nobody can guess. They are drawn many at a time, because a system call for each costs more."""

    def __init__(self) -> None:
        self._ids: list[str] = []

    def __call__(self) -> str:
        if not self._ids:
            drawn = os.urandom(_ID_BYTES * _IDS_AT_A_TIME).hex()
            self._ids = [drawn[at : at + 2 * _ID_BYTES] for at in range(0, len(drawn), 2 * _ID_BYTES)]
        return self._ids.pop()


random_id = _RandomIds()


class RequestReply:
    """Requests over an open connection. `request` may be called concurrently."""

    def __init__(
        self,
        connection: Connection,
        *,
        heartbeat_timeout: float = HEARTBEAT_TIMEOUT,
        stream_heartbeat_timeout: float = STREAM_HEARTBEAT_TIMEOUT,
    ) -> None:
        self._connection = connection
        self._heartbeat_timeout = heartbeat_timeout
        self._stream_heartbeat_timeout = stream_heartbeat_timeout
        self._prefix = ""
        self._pending: dict[str, _PendingRequest] = {}
        self._watch_task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        self._prefix = f"{self._connection.inbox}.{secrets.token_hex(8)}."
        await self._connection.subscribe(f"{self._prefix}*", self._on_message, is_direct=True)
        self._connection.on_error = self._on_connection_error
        self._watch_task = asyncio.create_task(self._watch())

    async def close(self) -> None:
        if self._watch_task is not None:
            self._watch_task.cancel()
            await asyncio.gather(self._watch_task, return_exceptions=True)
        for pending in self._pending.values():
            pending.finish(UnknownOutcome("the connection was closed while the call ran"))

    async def request(
        self,
        subject: str,
        body: bytes,
        headers: Mapping[str, str] | None,
        seconds: float,
        on_progress: ProgressCallback,
        on_item: ItemCallback | None = None,
        cancel_subject: Callable[[str], str] | None = None,
    ) -> Frame:
        """Send one request and return its final frame. Progress in heartbeats goes to `on_progress`.

        Pieces of the answer go to `on_item`. `cancel_subject` returns, for the id of a call, the subject on which its
        worker learns that the wait was cancelled; without it the call runs to its end.
        """
        reply = self._prefix + random_id()
        now = time.monotonic()
        pending = _PendingRequest(
            asyncio.get_running_loop().create_future(),
            now,
            now + seconds,
            on_progress,
            self._heartbeat_timeout,
            subject,
        )
        if on_item is not None:
            pending.on_item, pending.heartbeat_timeout = on_item, self._stream_heartbeat_timeout
        self._pending[reply] = pending
        try:
            if not await self._connection.send(subject, body, reply, headers):
                return _NOT_SENT
            return await pending.answer
        except asyncio.CancelledError:
            if cancel_subject is not None:
                await self._connection.send(cancel_subject(call_id_of(reply)))
            raise
        finally:
            # A second answer to the same call, or a late one, finds no pending request and is ignored.
            del self._pending[reply]

    async def _on_message(self, message: Message) -> None:
        pending = self._pending.get(message.subject)
        if pending is None:
            return
        pending.last_heard_at = time.monotonic()
        try:
            frame = read_frame(message.headers, message.data)
            if not isinstance(frame, Heartbeat | StreamItem):
                if pending.is_begun and isinstance(frame, Rejection) and frame.status in _BEFORE_BEGIN:
                    # The call ran, whatever the worker says now. It must not be sent to another one.
                    frame = UnknownOutcome("the worker rejected the call after it had begun")
                # The last frame. It may say how many pieces came before it.
                is_whole = counted_items(message.headers) in (None, pending.items)
                pending.finish(frame if is_whole else pending.lost_piece())
                return
        except BusError as problem:
            pending.finish(UnknownOutcome(f"the worker's reply is invalid: {problem.message}"))
            return
        pending.is_begun = True
        if isinstance(frame, StreamItem):
            pending.take(frame)
        elif frame.progress is not None and not pending.answer.done():
            pending.on_progress(frame.progress)

    def _on_connection_error(self, message: str) -> None:
        """End the requests to a worker's own subject that NATS refuses to publish.

        NATS reports each refused message by its subject. If every request to that subject has waited while as many
        were refused as there are, none of them was delivered.
        """
        reported = _REFUSED_PUBLISH.search(message)
        if reported is None or reported[1].count(".") != _WORKER_SUBJECT_DOTS:
            return
        subject = reported[1].lower()
        matching = [one for one in self._pending.values() if one.subject.lower() == subject]
        for pending in matching:
            pending.refusals += 1
        if all(pending.refusals >= len(matching) and not pending.is_begun for pending in matching):
            for pending in matching:
                pending.finish(_NOT_PERMITTED)

    async def _watch(self) -> None:
        pause = min(self._heartbeat_timeout, self._stream_heartbeat_timeout) / _CHECKS_PER_TIMEOUT
        checked_at = time.monotonic()
        while True:
            await asyncio.sleep(pause)
            now = time.monotonic()
            # If this process itself was stalled, messages that arrived meanwhile have not been read yet.
            stall = max(0.0, now - checked_at - 2 * pause)
            checked_at = now
            for pending in self._pending.values():
                pending.last_heard_at += stall
                if now >= pending.deadline:
                    pending.finish(UnknownOutcome("the deadline passed while it ran", code="timeout"))
                elif now - pending.last_heard_at > pending.heartbeat_timeout:
                    pending.finish(
                        UnknownOutcome(
                            f"no heartbeat from the worker for {pending.heartbeat_timeout:g} seconds", code=UNHEARD
                        )
                    )
