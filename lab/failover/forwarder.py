"""A TCP forwarder before Postgres that can be pointed to another server, as a load balancer or a virtual address is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

from lab.postgres_server import PostgresServer

_CHUNK: Final = 65_536


@dataclass(slots=True)
class Forwarder:
    """Forwards each connection to the target. Connections to a server that does not accept are closed."""

    target: PostgresServer
    port: int = 0
    _open: set[asyncio.StreamWriter] = field(default_factory=set[asyncio.StreamWriter])

    @property
    def address(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def point_to(self, target: PostgresServer) -> None:
        """Send new connections to another server, and end those to the old one."""
        self.target = target
        for writer in self._open:
            writer.close()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            from_server, to_server = await asyncio.open_connection("127.0.0.1", self.target.port)
        except OSError:
            writer.close()
            return
        writers = {writer, to_server}
        self._open |= writers
        pumps = {asyncio.ensure_future(_pump(reader, to_server)), asyncio.ensure_future(_pump(from_server, writer))}
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            self._open -= writers
            for one in writers:
                one.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()


@asynccontextmanager
async def forwarder(target: PostgresServer) -> AsyncGenerator[Forwarder]:
    """Forward from a free port of loopback until the block ends."""
    front = Forwarder(target)
    server = await asyncio.start_server(front.serve, "127.0.0.1", 0)
    front.port = server.sockets[0].getsockname()[1]
    try:
        yield front
    finally:
        server.close()
        front.point_to(target)
