"""Count the round trips between a program and PostgreSQL: a relay on a socket that reads the protocol's frames.

A round trip is the client speaking after the server has spoken: it had to wait for an answer before it went on.
Statements that are sent together (a pipeline, or Parse, Bind and Execute in one write) are one.
"""

import asyncio
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

SOCKET: Final = ".s.PGSQL.5432"
_READ: Final = 1 << 16
_READY: Final = ord("Z")


@dataclass(slots=True)
class Frames:
    """Reads the types of the protocol's messages in a stream of bytes, cut anywhere.

    The first message of a client has no type. `types` has a space for it.
    """

    has_startup: bool
    _rest: bytes = b""
    _skip: int = 0

    def feed(self, data: bytes) -> bytes:
        """Return the types of the messages that begin in this data."""
        types = bytearray()
        data = self._rest + data
        at = self._skip
        while True:
            head = 4 if self.has_startup else 5
            if at + head > len(data):
                break
            length = int.from_bytes(data[at + head - 4 : at + head], "big")
            types.append(ord(" ") if self.has_startup else data[at])
            at += length + (0 if self.has_startup else 1)
            self.has_startup = False
        self._rest, self._skip = (data[at:], 0) if at <= len(data) else (b"", at - len(data))
        return bytes(types)


@dataclass(slots=True)
class RoundTrips:
    """The round trips of all connections. `synchronisations` are the server's words that it is ready for a query."""

    count: int = 0
    synchronisations: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def add(self, count: int, synchronisations: int) -> None:
        with self._lock:
            self.count += count
            self.synchronisations += synchronisations


@dataclass(slots=True)
class _Relay:
    """One connection: whether the server has spoken since the client did."""

    trips: RoundTrips
    has_server_spoken: bool = True

    async def from_client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(_READ):
            if self.has_server_spoken:
                self.has_server_spoken = False
                self.trips.add(1, 0)
            writer.write(data)
            await writer.drain()
        writer.close()

    async def from_server(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        frames = Frames(has_startup=False)
        while data := await reader.read(_READ):
            self.has_server_spoken = True
            self.trips.add(0, frames.feed(data).count(_READY))
            writer.write(data)
            await writer.drain()
        writer.close()


@contextmanager
def counting_proxy(server: Path, folder: Path) -> Generator[RoundTrips]:
    """Listen on a socket in `folder` and relay each connection to the server whose socket is in `server`."""
    trips, loop = RoundTrips(), asyncio.new_event_loop()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_unix_connection(str(server / SOCKET))
        connection = _Relay(trips)
        try:
            # A connection that is reset has ended, as far as its counts are concerned.
            await asyncio.gather(
                *(connection.from_client(reader, back), connection.from_server(there, writer)), return_exceptions=True
            )
        finally:
            for one in (back, writer):
                one.close()
            await asyncio.gather(back.wait_closed(), writer.wait_closed(), return_exceptions=True)

    is_listening, over = threading.Event(), asyncio.Event()

    async def serve() -> None:
        listener = await asyncio.start_unix_server(relay, str(folder / SOCKET))
        is_listening.set()
        await over.wait()
        listener.close()
        relays = asyncio.all_tasks() - {asyncio.current_task()}
        for task in relays:
            task.cancel()
        await asyncio.gather(*relays, return_exceptions=True)

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()), name="ledger-proxy")
    thread.start()
    is_listening.wait()
    try:
        yield trips
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join()
        loop.close()
