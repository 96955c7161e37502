"""A relay on loopback before PostgreSQL that breaks a connection when a ledger writes: before or after the server did.

A connection over which a ledger writes is known by the setting that it begins with. What a client sends over it after
that, up to the server's answer, is one write.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

_WRITER = b"plan_cache_mode"
_TERMINATE = b"X"
_SOCKET = ".s.PGSQL.5432"


@dataclass(slots=True)
class LossyProxy:
    """`lost` says of each write, by its number from 1 on, what is lost: "request", "answer", or nothing."""

    cluster: Path
    lost: dict[int, str] = field(default_factory=dict[int, str])
    before_connection: Callable[[], Awaitable[None]] | None = None
    """Awaited before a new connection is passed on."""
    writes: int = 0
    broken: int = 0
    port: int = 0

    def address(self, where: str) -> str:
        """The address of a database through this relay."""
        return where.replace(f"host={self.cluster}", f"host=127.0.0.1&port={self.port}")

    async def relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.before_connection is not None:
            await self.before_connection()
        there, back = await asyncio.open_unix_connection(str(self.cluster / _SOCKET))
        answers = asyncio.ensure_future(_copy(there, writer))
        try:
            is_writer, how = False, None
            while how is None and (data := await reader.read(1 << 20)):
                if is_writer and data[:1] != _TERMINATE:
                    self.writes += 1
                    how = self.lost.pop(self.writes, None)
                is_writer = is_writer or _WRITER in data
                if how is not None:
                    answers.cancel()
                    await asyncio.gather(answers, return_exceptions=True)
                if how != "request":
                    back.write(data)
                    await back.drain()
            if how == "answer":
                # The server has committed when it answers.
                await there.read(1 << 20)
            if how is not None:
                self.broken += 1
        except ConnectionError:
            # Either side may be gone: then the other one is closed too.
            pass
        finally:
            answers.cancel()
            for one in (back, writer):
                one.close()
            await asyncio.gather(answers, return_exceptions=True)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 20):
        writer.write(data)
        await writer.drain()
    writer.close()


@asynccontextmanager
async def lossy_proxy(cluster: Path, lost: dict[int, str]) -> AsyncIterator[LossyProxy]:
    proxy = LossyProxy(cluster, lost)
    server = await asyncio.start_server(proxy.relay, "127.0.0.1", 0, family=socket.AF_INET)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        await server.wait_closed()
