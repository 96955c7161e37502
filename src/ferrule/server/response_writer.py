"""Outlet: the pieces of one answer on their way out. Leaves a reader that does not read; keeps a quiet one waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from ferrule.engines.deadlines import Waits
from ferrule.server.http import Stalled

Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]


class Outlet:
    """`send_seconds` is how long a reader may leave a piece unread: flow control alone would keep its task for ever."""

    __slots__ = ("_has_started", "_loop", "_send", "_send_seconds", "_sent_at", "_waits")

    def __init__(self, send: Send, send_seconds: float) -> None:
        self._send = send
        self._send_seconds = send_seconds
        self._waits = Waits()
        self._loop = asyncio.get_running_loop()
        self._sent_at = self._loop.time()
        self._has_started = False

    async def start(self, head: Message) -> None:
        await self._out(head)
        self._has_started = True

    async def send(self, piece: bytes) -> None:
        await self._out({"type": "http.response.body", "body": piece, "more_body": True})

    async def end(self) -> None:
        # Nothing may come after it.
        self._has_started = False
        await self._out({"type": "http.response.body", "body": b"", "more_body": False})

    async def kept_alive(self, piece: bytes, seconds: float) -> None:
        """For ever: says something whenever nothing else was said for so long."""
        while True:
            quiet = self._loop.time() - self._sent_at
            if quiet >= seconds and self._has_started:
                self._sent_at = self._loop.time()
                await self._send({"type": "http.response.body", "body": piece, "more_body": True})
                quiet = 0.0
            await asyncio.sleep(max(seconds - quiet, 0.01))

    def close(self) -> None:
        self._waits.close()

    async def _out(self, message: Message) -> None:
        self._waits.begin(self._send_seconds)
        try:
            await self._send(message)
        except asyncio.CancelledError as cancelled:
            self._waits.ended(cancelled)
            raise Stalled from cancelled
        self._waits.end()
        self._sent_at = self._loop.time()
