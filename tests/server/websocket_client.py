"""A WebSocket client in the same process: it calls the application over ASGI and decodes its frames."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from ferrule.dialects.frames.client_frames import ClientFrame
from ferrule.dialects.frames.codec import NumberedFrame, decode_frame, encode_client_frame
from ferrule.dialects.frames.server_frames import DoneFrame, ErrorFrame, KeepAliveFrame
from server.client import Client

PATIENCE = 30.0


@dataclass(slots=True)
class Socket:
    """`frames` are all received frames; `closed` is the close code of the gateway."""

    app: Any
    headers: Mapping[str, str]
    frames: list[NumberedFrame] = field(default_factory=list[NumberedFrame])
    closed: int | None = None
    reason: str = ""
    is_accepted: bool = False
    protocol: str | None = None
    """The subprotocol that the gateway chose."""
    reads: asyncio.Event = field(default_factory=asyncio.Event)
    """Clear it to stop reading: frames then wait."""
    is_raw: bool = False
    """Whether frames are kept as JSON, in `bodies`, and not decoded."""
    bodies: asyncio.Queue[dict[str, Any]] = field(default_factory=asyncio.Queue[dict[str, Any]])
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
            "subprotocols": subprotocols_of(self.headers),
        }
        await self.app(scope, self._to_app.get, self._take)

    async def send(self, frame: ClientFrame | dict[str, Any] | str | bytes) -> None:
        if isinstance(frame, bytes):
            await self._to_app.put({"type": "websocket.receive", "bytes": frame})
            return
        data = frame if isinstance(frame, str | dict) else encode_client_frame(frame)
        text = data if isinstance(data, str) else json.dumps(data)
        await self._to_app.put({"type": "websocket.receive", "text": text})

    async def next(self) -> NumberedFrame:
        """Return the next frame that is not a keep-alive."""
        async with asyncio.timeout(PATIENCE):
            while True:
                while self._seen < len(self.frames):
                    self._seen += 1
                    frame = self.frames[self._seen - 1]
                    if not isinstance(frame.frame, KeepAliveFrame):
                        return frame
                assert self.closed is None, f"closed with {self.closed}: {self.reason}"
                self._stirred.clear()
                await self._stirred.wait()

    async def next_json(self) -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE):
            return await self.bodies.get()

    async def until(self, *kinds: type) -> NumberedFrame:
        """Return the next frame of one of these types; earlier frames stay in `frames`."""
        while True:
            frame = await self.next()
            if isinstance(frame.frame, kinds):
                return frame

    async def to_end(self) -> NumberedFrame:
        """Return the last frame of a turn."""
        return await self.until(DoneFrame, ErrorFrame)

    def disconnect(self) -> None:
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
                body = json.loads(message["text"])
                if self.is_raw:
                    self.bodies.put_nowait(body)
                else:
                    self.frames.append(decode_frame(body))
                self._stirred.set()


def subprotocols_of(headers: Mapping[str, str]) -> list[str]:
    """Return the subprotocols in the headers, as a server passes them on."""
    return [one.strip() for one in headers.get("sec-websocket-protocol", "").split(",") if one.strip()]


@asynccontextmanager
async def connect(client: Client, headers: Mapping[str, str] | None = None) -> AsyncGenerator[Socket]:
    """Open a socket; it disconnects at the end without a close frame, as on a network failure."""
    socket = Socket(client.app, {**client.headers, **(headers or {})})
    socket.reads.set()
    task = asyncio.ensure_future(socket.run())
    try:
        yield socket
    finally:
        socket.disconnect()
        socket.reads.set()
        await asyncio.wait_for(task, PATIENCE)
