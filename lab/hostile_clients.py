"""Clients that mean harm or are merely broken: each opens connections, does one thing wrong, and sees what it gets.

They speak plain sockets, since no client library can be made to misbehave like this. What a server should do with them
is not said here.
"""

import asyncio
import json
import socket
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

MEGABYTE: Final = 1_000_000
_PATH: Final = b"/v1/chat/completions"
_OPEN: Final = "open"
_CUT: Final = "cut off"
_CLOSED: Final = "closed"
_UNREAD_BYTES: Final = 4096
"""What a reader that stops leaves room for: little, so that the server feels it soon."""
_LONG_ANSWER: Final = 2_000


@dataclass(frozen=True, slots=True)
class Target:
    """Where, and for how many seconds a client looks on before it says that it was let."""

    port: int
    patience: float


Client = Callable[[Target], Awaitable[str]]
Opened = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def request(body: Mapping[str, Any], more: bytes = b"") -> bytes:
    """A request as bytes, with these header lines besides the usual ones."""
    data = json.dumps({"messages": [{"role": "user", "content": "Hi."}], **body}).encode()
    return head(len(data), more) + data


def head(length: int, more: bytes = b"") -> bytes:
    lines = b"POST %b HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n" % _PATH
    return lines + b"content-length: %d\r\n" % length + more + b"\r\n"


async def _opened(target: Target, receives: int = 0) -> Opened:
    made = socket.socket()
    if receives:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receives)
    made.setblocking(False)
    await asyncio.get_running_loop().sock_connect(made, ("127.0.0.1", target.port))
    return await asyncio.open_connection(sock=made, limit=max(receives, 65_536))


async def _told(reader: asyncio.StreamReader, patience: float) -> str:
    """The status that came, or how it ended without one."""
    try:
        async with asyncio.timeout(patience):
            line = await reader.readline()
    except TimeoutError:
        return _OPEN
    except ConnectionError:
        return _CUT
    return line.split(b" ")[1].decode() if line.startswith(b"HTTP/") else _CLOSED


async def _sending(target: Target, pieces: list[bytes], pause: float = 0.0) -> str:
    """Sends the pieces, for as long as they are taken, while it listens for an answer."""
    reader, writer = await _opened(target)
    listening = asyncio.ensure_future(_told(reader, target.patience))
    try:
        for piece in pieces:
            if listening.done():
                break
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(pause)
    except ConnectionError:
        # Whether the answer was still to be had is what the listener knows.
        pass
    found = await listening
    writer.transport.abort()
    return found


async def half_a_head(target: Target) -> str:
    return await _sending(target, [head(10)[:-20]])


async def a_head_that_drips(target: Target) -> str:
    return await _sending(target, [head(10)[:-2], *[b"x-more: y\r\n"] * int(target.patience * 5)], 0.2)


async def half_a_body(target: Target) -> str:
    return await _sending(target, [head(1000) + b'{"messages": ['])


async def a_body_that_drips(target: Target) -> str:
    return await _sending(target, [head(100_000), *[b" "] * int(target.patience * 5)], 0.2)


async def nothing_at_all(target: Target) -> str:
    return await _sending(target, [])


async def a_head_of_8_mb(target: Target) -> str:
    return await _sending(target, [head(2, b"x-large: " + b"y" * 8 * MEGABYTE + b"\r\n") + b"{}"])


async def eight_thousand_headers(target: Target) -> str:
    return await _sending(target, [head(2, b"".join(b"x-%d: y\r\n" % at for at in range(8_000))) + b"{}"])


async def a_body_of_120_mb(target: Target) -> str:
    return await _sending(target, [head(120 * MEGABYTE), *[b"x" * MEGABYTE] * 120])


async def a_body_of_120_mb_in_chunks(target: Target) -> str:
    start = head(0).replace(b"content-length: 0", b"transfer-encoding: chunked")
    chunk = b"%x\r\n" % MEGABYTE + b"x" * MEGABYTE + b"\r\n"
    return await _sending(target, [start, *[chunk] * 120, b"0\r\n\r\n"])


async def a_reader_that_stops(target: Target) -> str:
    """Asks for more than any buffer holds and reads none of it; whether it was left is seen when it looks again."""
    reader, writer = await _opened(target, _UNREAD_BYTES)
    # Of the transport and not only of the reader: what is not asked for stays in the other side's buffers.
    writer.transport.pause_reading()  # type: ignore[attr-defined]  # a socket's transport has it
    writer.write(request({"stream": True, "max_tokens": _LONG_ANSWER}))
    await asyncio.sleep(target.patience)
    writer.transport.resume_reading()  # type: ignore[attr-defined]
    said = 0
    try:
        async with asyncio.timeout(2):
            while piece := await reader.read(MEGABYTE):
                said += len(piece)
                if b"[DONE]" in piece:
                    return "whole answer"
    except TimeoutError:
        return _OPEN
    except ConnectionError:
        return _CUT
    finally:
        writer.transport.abort()
    return _CUT


async def one_who_behaves(target: Target) -> str:
    """A plain question, and its answer within the patience of a person."""
    reader, writer = await _opened(target)
    try:
        writer.write(request({"max_tokens": 8}, b"connection: close\r\n"))
        return await _told(reader, 30.0)
    finally:
        writer.transport.abort()


ATTACKS: Final[Mapping[str, tuple[Client, int]]] = {
    "half a head": (half_a_head, 50),
    "a head that drips": (a_head_that_drips, 50),
    "half a body": (half_a_body, 50),
    "a body that drips": (a_body_that_drips, 50),
    "nothing at all": (nothing_at_all, 200),
    "a head of 8 MB": (a_head_of_8_mb, 10),
    "8,000 headers": (eight_thousand_headers, 10),
    "a body of 120 MB": (a_body_of_120_mb, 5),
    "a body of 120 MB, in chunks": (a_body_of_120_mb_in_chunks, 5),
    "a reader that stops": (a_reader_that_stops, 20),
    "a reader that stops, again": (a_reader_that_stops, 20),
    "a reader that stops, once more": (a_reader_that_stops, 20),
}
"""Each with how many do it at once."""


@dataclass(frozen=True, slots=True)
class Attacked:
    """What the attackers got, and what those got who asked meanwhile and did nothing wrong."""

    got: Counter[str]
    others: Counter[str]

    @property
    def let(self) -> int:
        """How many were still there when they gave up."""
        return self.got[_OPEN]


async def attacked(client: Client, times: int, target: Target) -> Attacked:
    """So many at once, with somebody else asking all the while."""
    over = asyncio.Event()
    others: Counter[str] = Counter()

    async def ask() -> None:
        while not over.is_set():
            others[await one_who_behaves(target)] += 1
            await asyncio.sleep(0.1)

    asking = asyncio.ensure_future(ask())
    try:
        got = Counter(await asyncio.gather(*(client(target) for _ in range(times))))
    finally:
        over.set()
        await asking
    return Attacked(got, others)
