"""A relay between a client and the paced upstream: the least that a gateway in Python costs, for comparison.

`bare` hands on the bytes as they arrive. `json` parses each event and writes it again with a new id. Both read a
socket, wake a task and write another socket, as the gateway does, on the same event loop. Neither checks or limits
anything.
"""

import asyncio
import sys
from collections.abc import Callable

import msgspec
import uvloop

_READ_BYTES = 65_536
Transform = Callable[[bytes], bytes]


def rewrite_events(data: bytes) -> bytes:
    """Parse the events in whole chunks of the transfer encoding, and encode them again as the answer of another id."""
    out: list[bytes] = []
    for block in data.split(b"\r\n"):
        if not block.startswith(b"data: {"):
            continue
        value = msgspec.json.decode(block[6:].rstrip())
        event = b"data: %b\n\n" % msgspec.json.encode({**value, "id": "relayed"})
        out.append(b"%x\r\n%b\r\n" % (len(event), event))
    return b"".join(out)


class Relay:
    """Serves connections with one request each."""

    def __init__(self, port: int, transform: Transform | None) -> None:
        self._port = port
        self._transform = transform

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(int(one[16:]) for one in head.lower().split(b"\r\n") if one.startswith(b"content-length: "))
        upstream_reader, upstream_writer = await asyncio.open_connection("127.0.0.1", self._port)
        upstream_writer.write(head + await reader.readexactly(length))
        # Nothing follows the request, so this ends when the client disconnects. Then the upstream's stream ends too.
        disconnect = asyncio.ensure_future(reader.read())
        disconnect.add_done_callback(lambda _: upstream_writer.close())
        try:
            writer.write(await upstream_reader.readuntil(b"\r\n\r\n"))
            while (data := await upstream_reader.read(_READ_BYTES)) and not writer.is_closing():
                writer.write(self._transform(data) if self._transform else data)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            disconnect.cancel()
            upstream_writer.close()
            writer.close()


async def _main(port: int, upstream_port: int, transform: Transform | None) -> None:
    server = await asyncio.start_server(Relay(upstream_port, transform), "127.0.0.1", port, backlog=4096)
    print("up", flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(_main(int(sys.argv[1]), int(sys.argv[2]), rewrite_events if sys.argv[3] == "json" else None))
