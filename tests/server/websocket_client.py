"""A WebSocket client in the same process: speaks ASGI to the application, and reads frames by the codec."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from ferrule.dialects.frames.client_frames import Incoming
from ferrule.dialects.frames.codec import Numbered, decode, encode_incoming
from ferrule.dialects.frames.server_frames import Done, Failed, KeepAlive
from server.client import Client

PATIENCE = 30.0


@dataclass(slots=True)
class Socket:
    """`frames` is everything that came; `closed` is the code that the gateway closed with."""

    app: Any
    headers: Mapping[str, str]
    frames: list[Numbered] = field(default_factory=list[Numbered])
    closed: int | None = None
    reason: str = ""
    is_accepted: bool = False
    protocol: str | None = None
    """The one that the gateway chose."""
    reads: asyncio.Event = field(default_factory=asyncio.Event)
    """Cleared, the client does not read: what is sent to it waits."""
    _to_app: asyncio.Queue[dict[str, Any]] = field(default_factory=asyncio.Queue[dict[str, Any]])
    _stirred: asyncio.Event = field(default_factory=asyncio.Event)
    _seen: int = 0

    def __post_init__(self) -> None:
        self._to_app.put_nowait({"type": "websocket.connect"})

    async def run(self) -> None:
        scope = {
            "type": "websocket",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "scheme": "ws",
            "path": "/v1/stream",
            "raw_path": b"/v1/stream",
            "root_path": "",
            "query_string": b"",
            "headers": [(name.encode(), value.encode()) for name, value in self.headers.items()],
            "client": ("127.0.0.1", 40000),
            "server": ("127.0.0.1", 8000),
            "subprotocols": offered(self.headers),
        }
        await self.app(scope, self._to_app.get, self._take)

    async def say(self, frame: Incoming | dict[str, Any] | str | bytes) -> None:
        if isinstance(frame, bytes):
            await self._to_app.put({"type": "websocket.receive", "bytes": frame})
            return
        told = frame if isinstance(frame, str | dict) else encode_incoming(frame)
        text = told if isinstance(told, str) else json.dumps(told)
        await self._to_app.put({"type": "websocket.receive", "text": text})

    async def next(self) -> Numbered:
        """The next frame that says something."""
        async with asyncio.timeout(PATIENCE):
            while True:
                while self._seen < len(self.frames):
                    self._seen += 1
                    found = self.frames[self._seen - 1]
                    if not isinstance(found.frame, KeepAlive):
                        return found
                assert self.closed is None, f"closed with {self.closed}: {self.reason}"
                self._stirred.clear()
                await self._stirred.wait()

    async def until(self, *kinds: type) -> Numbered:
        """The next frame of one of these kinds; what comes before it stays in `frames`."""
        while True:
            found = await self.next()
            if isinstance(found.frame, kinds):
                return found

    async def to_end(self) -> Numbered:
        """The last frame of a turn."""
        return await self.until(Done, Failed)

    def leave(self) -> None:
        self._to_app.put_nowait({"type": "websocket.disconnect", "code": 1006})

    def of(self, *kinds: type) -> list[Any]:
        return [one.frame for one in self.frames if isinstance(one.frame, kinds)]

    async def _take(self, message: Any) -> None:
        match message["type"]:
            case "websocket.accept":
                self.is_accepted, self.protocol = True, message.get("subprotocol")
                self._stirred.set()
            case "websocket.close":
                self.closed, self.reason = message["code"], message["reason"]
                self._stirred.set()
            case _:
                await self.reads.wait()
                self.frames.append(decode(json.loads(message["text"])))
                self._stirred.set()


def offered(headers: Mapping[str, str]) -> list[str]:
    """Subprotocols as a server hands them on."""
    return [one.strip() for one in headers.get("sec-websocket-protocol", "").split(",") if one.strip()]


@asynccontextmanager
async def connected(client: Client, headers: Mapping[str, str] | None = None) -> AsyncGenerator[Socket]:
    """Left at the end, like a client whose network fails."""
    socket = Socket(client.app, {**client.headers, **(headers or {})})
    socket.reads.set()
    running = asyncio.ensure_future(socket.run())
    try:
        yield socket
    finally:
        socket.leave()
        socket.reads.set()
        await asyncio.wait_for(running, PATIENCE)
