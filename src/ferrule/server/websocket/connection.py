"""Connection: one WebSocket. Takes the client's frames one after another, and sends what its turns have to say.

Both ways are bounded: a client that sends faster than it is answered is closed, and one that does not read holds up its
own turns only. What a client does wrong is told to it, and the connection stays.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field

from ferrule.dialects.frames.client_frames import Ask, Cancel, Confirm, Incoming, Resume, ToolAnswer
from ferrule.dialects.frames.codec import Numbered, decode_incoming, encode_text, ref_of
from ferrule.dialects.frames.server_frames import KeepAlive, Outgoing
from ferrule.errors import FerruleError, NotFoundError, RequestError, TooLargeError, TooManyError
from ferrule.server.http import Asked, Socket
from ferrule.server.websocket.approval import decide
from ferrule.server.websocket.encoder import failed
from ferrule.server.websocket.frame_log import Reading
from ferrule.server.websocket.turns import Turns

_QUEUED = 64
"""How many of a client's frames may wait for their turn, and how many answers to them for being sent."""
_TURNS = 16
"""How many turns one connection may read at once."""
_POLICY_VIOLATION = 1008
_TAKEN = NotFoundError("another connection reads this turn now", code="turn_taken", hint="Resume it to have it back.")


@dataclass(slots=True)
class Connection:
    turns: Turns
    asked: Asked
    socket: Socket
    _heard: asyncio.Queue[str | None] = field(init=False)
    _heard_size: int = 0
    _own: deque[str] = field(default_factory=deque[str])
    """Frames that belong to no turn."""
    _told: int = 0
    _sent: int = 0
    _is_gone: bool = False
    _readings: deque[Reading] = field(default_factory=deque[Reading])
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _has_sent: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        # One more than may wait: the word that nothing follows.
        self._heard = asyncio.Queue(_QUEUED + 1)

    async def serve(self) -> None:
        """Until the client is gone, or has to go."""
        sending = asyncio.ensure_future(self._send())
        handling = asyncio.ensure_future(self._handle())
        receiving = asyncio.ensure_future(self._receive())
        keeping = asyncio.ensure_future(self._keep_alive())
        try:
            await asyncio.wait({sending, handling, receiving}, return_when=asyncio.FIRST_COMPLETED)
            if receiving.done() and not receiving.result():
                await self.socket.close(_POLICY_VIOLATION, "too many frames at once")
            elif receiving.done():
                # Its last words count, such as a cancel, also where no answer reaches it any more.
                await asyncio.wait({handling})
        finally:
            tasks = (sending, handling, receiving, keeping)
            for task in tasks:
                task.cancel()
            ends = await asyncio.gather(*tasks, return_exceptions=True)
            for reading in self._readings:
                self.turns.left(reading)
        for end in ends:
            if isinstance(end, Exception) and not isinstance(end, ConnectionError):
                raise end

    async def _receive(self) -> bool:
        """True where the client left by itself; False where it sends more than can be taken."""
        most = 2 * self.turns.gateway.config.limits.body_bytes
        while True:
            try:
                text = await self.socket.receive()
            except RequestError as refusal:
                # Too deep, or too many values: it was not even read.
                self._tell(failed(refusal))
                if len(self._own) >= _QUEUED:
                    return False
                continue
            if text is None:
                self._is_gone = True
                self._has_sent.set()
                self._heard.put_nowait(None)
                return True
            self._heard_size += len(text)
            if self._heard.qsize() >= _QUEUED or self._heard_size > most:
                return False
            self._heard.put_nowait(text)

    async def _handle(self) -> None:
        while (text := await self._heard.get()) is not None:
            try:
                self._check(text)
                await self._take(decode_incoming(text))
            except FerruleError as refusal:
                self._tell(failed(refusal, ref_of(text)))
            self._heard_size -= len(text)
            while len(self._own) >= _QUEUED and not self._is_gone:
                self._has_sent.clear()
                await self._has_sent.wait()

    def _check(self, text: str) -> None:
        limits = self.turns.gateway.config.limits
        if len(text.encode("utf-8", "surrogatepass")) > limits.body_bytes:
            raise TooLargeError(f"the frame is longer than {limits.body_bytes} bytes", hint="Send less.")

    async def _take(self, frame: Incoming) -> None:
        turns, principal = self.turns, self.asked.principal
        match frame:
            case Ask():
                self._check_width()
                self._read(turns.read(turns.begin(frame, principal), 0, self._wake.set))
            case Resume(turn, after):
                self._check_width()
                self._read(turns.read(turns.found(turn, principal), after, self._wake.set))
            case ToolAnswer(turn):
                turns.found(turn, principal).answer(frame)
            case Cancel(turn):
                turns.found(turn, principal).cancel()
            case Confirm(approval):
                await decide(turns.gateway, self.asked, frame)
                turns.stir(approval)

    def _check_width(self) -> None:
        if len(self._readings) >= _TURNS:
            raise TooManyError(f"this connection has {_TURNS} turns", hint="Wait until one ends, or open another.")

    def _read(self, reading: Reading) -> None:
        # Who resumes what he reads already has it from there on, and nobody took it from him.
        others = [one for one in self._readings if one.log is not reading.log]
        self._readings = deque([*others, reading])
        self._wake.set()

    def _tell(self, frame: Outgoing) -> None:
        self._told += 1
        self._own.append(encode_text(Numbered("", self._told, frame)))
        self._wake.set()

    async def _send(self) -> None:
        while True:
            text = self._next()
            if text is not None:
                await self.socket.send(text)
                self._sent += 1
                self._has_sent.set()
                continue
            self._wake.clear()
            await self._wake.wait()

    async def _keep_alive(self) -> None:
        """Looks now and then: a timer for every frame would cost more than the frame."""
        while True:
            sent = self._sent
            await asyncio.sleep(self.turns.gateway.config.limits.keep_alive_seconds)
            if sent == self._sent and not self._own:
                self._tell(KeepAlive())

    def _next(self) -> str | None:
        """The turns one after another, so that a long one holds up no other."""
        if self._own:
            return self._own.popleft()
        for _ in range(len(self._readings)):
            reading = self._readings.popleft()
            text = reading.next()
            if reading.is_lost:
                self._tell(failed(_TAKEN))
            elif text is not None or not reading.is_over:
                self._readings.append(reading)
            if text is not None:
                return text
        return self._own.popleft() if self._own else None
