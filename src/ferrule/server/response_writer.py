"""ResponseWriter: sends the chunks of one streaming response.

It drops clients that do not read, and sends keep-alive chunks while there is nothing else to send.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from ferrule.engines.deadlines import DeadlineTimer
from ferrule.server.http import StalledClientError

Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]


class ResponseWriter:
    """`send_seconds` limits how long a client may leave a chunk unread: flow control alone would wait forever."""

    __slots__ = ("_deadline", "_has_started", "_loop", "_send", "_send_seconds", "_sent_at")

    def __init__(self, send: Send, send_seconds: float) -> None:
        self._send = send
        self._send_seconds = send_seconds
        self._deadline = DeadlineTimer()
        self._loop = asyncio.get_running_loop()
        self._sent_at = self._loop.time()
        self._has_started = False

    async def start(self, head: Message) -> None:
        await self._write(head)
        self._has_started = True

    async def send(self, chunk: bytes) -> None:
        await self._write({"type": "http.response.body", "body": chunk, "more_body": True})

    async def end(self) -> None:
        # From here on no keep-alive may be sent.
        self._has_started = False
        await self._write({"type": "http.response.body", "body": b"", "more_body": False})

    async def send_keep_alive(self, chunk: bytes, seconds: float) -> None:
        """Send `chunk` whenever nothing else was sent for `seconds`. Runs until it is cancelled."""
        while True:
            idle_seconds = self._loop.time() - self._sent_at
            if idle_seconds >= seconds and self._has_started:
                self._sent_at = self._loop.time()
                await self._send({"type": "http.response.body", "body": chunk, "more_body": True})
                idle_seconds = 0.0
            await asyncio.sleep(max(seconds - idle_seconds, 0.01))

    def close(self) -> None:
        self._deadline.close()

    async def _write(self, message: Message) -> None:
        self._deadline.start(self._send_seconds)
        try:
            await self._send(message)
        except asyncio.CancelledError as cancelled:
            self._deadline.reraise_unless_expired(cancelled)
            raise StalledClientError from cancelled
        self._deadline.stop()
        self._sent_at = self._loop.time()
