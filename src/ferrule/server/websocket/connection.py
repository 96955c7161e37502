"""Connection: one WebSocket. Handles the client's frames one after another, and sends the frames of its turns.

Both directions are bounded: a client that sends faster than it is answered is disconnected, and a client that does not
read blocks only its own turns. After an invalid frame the client gets an error, and the connection stays open.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field

from ferrule.dialects.frames.client_frames import (
    AskFrame,
    CallerResultFrame,
    CancelFrame,
    ClientFrame,
    ConfirmFrame,
    ResumeFrame,
)
from ferrule.dialects.frames.codec import NumberedFrame, decode_client_frame, encode_frame_text, ref_of
from ferrule.dialects.frames.server_frames import KeepAliveFrame, ServerFrame
from ferrule.errors import DefinitionError, FerruleError, NotFoundError, RequestError, TooLargeError, TooManyError
from ferrule.server.http import Request, Socket
from ferrule.server.websocket.encoder import error_frame
from ferrule.server.websocket.frame_log import LogReader
from ferrule.server.websocket.turn import decide
from ferrule.server.websocket.turns import Turns

_MAX_QUEUED = 64
"""How many of a client's frames may wait to be handled, and how many answers may wait to be sent."""
_MAX_TURNS = 16
"""How many turns one connection may read at once."""
_POLICY_VIOLATION = 1008
_TURN_TAKEN = NotFoundError(
    "another connection reads this turn now", code="turn_taken", hint="Resume the turn to take it back."
)


@dataclass(slots=True)
class Connection:
    turns: Turns
    request: Request
    socket: Socket
    _inbox: asyncio.Queue[str | None] = field(init=False)
    _inbox_size: int = 0
    _outbox: deque[str] = field(default_factory=deque[str])
    """Frames that belong to no turn, waiting to be sent."""
    _frame_count: int = 0
    _sent_count: int = 0
    _is_disconnected: bool = False
    _readers: deque[LogReader] = field(default_factory=deque[LogReader])
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _has_sent: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        # One more than the limit, for the None at the end.
        self._inbox = asyncio.Queue(_MAX_QUEUED + 1)

    async def serve(self) -> None:
        """Serve the connection until the client disconnects or is disconnected."""
        sender = asyncio.ensure_future(self._send())
        handler = asyncio.ensure_future(self._handle())
        receiver = asyncio.ensure_future(self._receive())
        keep_alive = asyncio.ensure_future(self._keep_alive())
        try:
            await asyncio.wait({sender, handler, receiver}, return_when=asyncio.FIRST_COMPLETED)
            if receiver.done() and not receiver.result():
                await self.socket.close(_POLICY_VIOLATION, "too many frames at once")
            elif receiver.done():
                # Its last frames still count, such as a cancel, although no answer can reach it.
                await asyncio.wait({handler})
        finally:
            tasks = (sender, handler, receiver, keep_alive)
            for task in tasks:
                task.cancel()
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
            for reader in self._readers:
                self.turns.detach(reader)
        for outcome in outcomes:
            if isinstance(outcome, Exception) and not isinstance(outcome, ConnectionError):
                raise outcome

    async def _receive(self) -> bool:
        """Return True when the client disconnects, False if it sends more than allowed."""
        max_size = 2 * self.turns.gateway.config.limits.body_bytes
        while True:
            try:
                text = await self.socket.receive()
            except RequestError as refusal:
                # Too deep, or too many values: the frame was not parsed.
                self._queue_frame(error_frame(refusal))
                if len(self._outbox) >= _MAX_QUEUED:
                    return False
                continue
            if text is None:
                self._is_disconnected = True
                self._has_sent.set()
                self._inbox.put_nowait(None)
                return True
            self._inbox_size += len(text)
            if self._inbox.qsize() >= _MAX_QUEUED or self._inbox_size > max_size:
                return False
            self._inbox.put_nowait(text)

    async def _handle(self) -> None:
        while (text := await self._inbox.get()) is not None:
            try:
                self._check(text)
                await self._handle_frame(decode_client_frame(text))
            except FerruleError as refusal:
                self.turns.gateway.telemetry.record_error(refusal)
                self._queue_frame(error_frame(refusal, ref_of(text)))
            self._inbox_size -= len(text)
            while len(self._outbox) >= _MAX_QUEUED and not self._is_disconnected:
                self._has_sent.clear()
                await self._has_sent.wait()

    def _check(self, text: str) -> None:
        limits = self.turns.gateway.config.limits
        if len(text.encode("utf-8", "surrogatepass")) > limits.body_bytes:
            raise TooLargeError(f"the frame is longer than {limits.body_bytes} bytes", hint="Send less.")

    async def _handle_frame(self, frame: ClientFrame) -> None:
        turns, principal = self.turns, self.request.principal
        key = self.request.key
        if key is not None:
            turns.gateway.keys.check(key)
        match frame:
            case AskFrame():
                self._check_turn_limit()
                live = turns.begin(frame, principal, key.limit_name if key else "")
                self._attach(turns.read(live, 0, self._wake.set))
            case ResumeFrame(turn, after):
                self._check_turn_limit()
                self._attach(turns.read(turns.find(turn, principal), after, self._wake.set))
            case CallerResultFrame(turn):
                turns.find(turn or self._waiting_turn(frame.id), principal).add_result(frame)
            case CancelFrame(turn):
                turns.find(turn, principal).cancel()
            case ConfirmFrame(approval):
                await decide(turns.gateway, self.request, frame)
                turns.wake(approval)

    def _waiting_turn(self, call_id: str) -> str:
        """Return the turn of this connection that waits for the result of a call."""
        ids = [reader.log.turn for reader in self._readers]
        waiting = [id for id in ids if self.turns.find(id, self.request.principal).waits_for(call_id)]
        if len(waiting) > 1:
            raise DefinitionError("two turns wait for a call with this id", hint="Name the turn.", param="turn")
        if not waiting:
            raise NotFoundError(
                "no call with this id is waiting for a result", code="call_not_found", hint="See tool_call."
            )
        return waiting[0]

    def _check_turn_limit(self) -> None:
        if len(self._readers) >= _MAX_TURNS:
            raise TooManyError(f"this connection has {_MAX_TURNS} turns", hint="Wait until one ends, or open another.")

    def _attach(self, reader: LogReader) -> None:
        # A client may resume a turn that it already reads; then the new reader replaces the old one.
        others = [one for one in self._readers if one.log is not reader.log]
        self._readers = deque([*others, reader])
        self._wake.set()

    def _queue_frame(self, frame: ServerFrame) -> None:
        self._frame_count += 1
        self._outbox.append(encode_frame_text(NumberedFrame("", self._frame_count, frame)))
        self._wake.set()

    async def _send(self) -> None:
        while True:
            text = self._next_text()
            if text is not None:
                await self.socket.send(text)
                self._sent_count += 1
                self._has_sent.set()
                continue
            self._wake.clear()
            await self._wake.wait()

    async def _keep_alive(self) -> None:
        """Send a keep-alive frame if nothing else was sent. One periodic check is cheaper than a timer per frame."""
        while True:
            count_before = self._sent_count
            await asyncio.sleep(self.turns.gateway.config.limits.keep_alive_seconds)
            if count_before == self._sent_count and not self._outbox:
                self._queue_frame(KeepAliveFrame())

    def _next_text(self) -> str | None:
        """Return the next text to send. Turns take turns, so that a long one does not block the others."""
        if self._outbox:
            return self._outbox.popleft()
        for _ in range(len(self._readers)):
            reader = self._readers.popleft()
            text = reader.next()
            if reader.is_replaced:
                self._queue_frame(error_frame(_TURN_TAKEN))
            elif text is not None or not reader.is_over:
                self._readers.append(reader)
            if text is not None:
                return text
        return self._outbox.popleft() if self._outbox else None
