"""A proxy that gives each connection to the next gateway in turn, as a load balancer without sessions does."""

import asyncio
import itertools
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress

_CHUNK = 65_536
_PAUSE = 0.1


@asynccontextmanager
async def round_robin_proxy(ports: Sequence[int]) -> AsyncGenerator[int]:
    """Serve on a free port of this machine, and yield it. A gateway that does not accept is passed over."""
    turns = itertools.count()

    async def connect() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to the next gateway that accepts. While all of them start again, wait."""
        while True:
            for _ in ports:
                with suppress(OSError):
                    return await asyncio.open_connection("127.0.0.1", ports[next(turns) % len(ports)])
            await asyncio.sleep(_PAUSE)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream = await connect()
        pumps = [asyncio.ensure_future(_pump(reader, upstream[1])), asyncio.ensure_future(_pump(upstream[0], writer))]
        # At the end of the run; an unhandled cancellation would be printed.
        with suppress(asyncio.CancelledError):
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)
        for stream in (writer, upstream[1]):
            stream.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()
