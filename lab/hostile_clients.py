"""Malicious or broken clients: each opens connections, does one thing wrong, and reports the outcome.

They use plain sockets, because no client library can be made to misbehave like this. This module does not say what a
server should do with them.
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
"""The receive buffer of a reader that stops: small, so that the server notices soon."""
_LONG_ANSWER: Final = 2_000


@dataclass(frozen=True, slots=True)
class Target:
    """The port, and for how many seconds a client waits before it reports that its connection stayed open."""

    port: int
    patience: float


Client = Callable[[Target], Awaitable[str]]
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def request(body: Mapping[str, Any], more: bytes = b"") -> bytes:
    """A request as bytes, with additional header lines."""
    data = json.dumps({"messages": [{"role": "user", "content": "Hi."}], **body}).encode()
    return head(len(data), more) + data


def head(length: int, more: bytes = b"") -> bytes:
    lines = b"POST %b HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n" % _PATH
    return lines + b"content-length: %d\r\n" % length + more + b"\r\n"


async def _open_connection(target: Target, receives: int = 0) -> Connection:
    connection = socket.socket()
    if receives:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receives)
    connection.setblocking(False)
    await asyncio.get_running_loop().sock_connect(connection, ("127.0.0.1", target.port))
    return await asyncio.open_connection(sock=connection, limit=max(receives, 65_536))


async def _response_status(reader: asyncio.StreamReader, patience: float) -> str:
    """The response status, or how the connection ended without one."""
    try:
        async with asyncio.timeout(patience):
            line = await reader.readline()
    except TimeoutError:
        return _OPEN
    except ConnectionError:
        return _CUT
    return line.split(b" ")[1].decode() if line.startswith(b"HTTP/") else _CLOSED


async def _send_pieces(target: Target, pieces: list[bytes], pause: float = 0.0) -> str:
    """Send the pieces as long as the server accepts them, while waiting for a response."""
    reader, writer = await _open_connection(target)
    listening = asyncio.ensure_future(_response_status(reader, target.patience))
    try:
        for piece in pieces:
            if listening.done():
                break
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(pause)
    except ConnectionError:
        # The listener knows whether there was a response.
        pass
    status = await listening
    writer.transport.abort()
    return status


async def half_a_head(target: Target) -> str:
    return await _send_pieces(target, [head(10)[:-20]])


async def a_head_that_drips(target: Target) -> str:
    return await _send_pieces(target, [head(10)[:-2], *[b"x-more: y\r\n"] * int(target.patience * 5)], 0.2)


async def half_a_body(target: Target) -> str:
    return await _send_pieces(target, [head(1000) + b'{"messages": ['])


async def a_body_that_drips(target: Target) -> str:
    return await _send_pieces(target, [head(100_000), *[b" "] * int(target.patience * 5)], 0.2)


async def nothing_at_all(target: Target) -> str:
    return await _send_pieces(target, [])


async def a_head_of_8_mb(target: Target) -> str:
    return await _send_pieces(target, [head(2, b"x-large: " + b"y" * 8 * MEGABYTE + b"\r\n") + b"{}"])


async def eight_thousand_headers(target: Target) -> str:
    return await _send_pieces(target, [head(2, b"".join(b"x-%d: y\r\n" % at for at in range(8_000))) + b"{}"])


async def a_body_of_120_mb(target: Target) -> str:
    return await _send_pieces(target, [head(120 * MEGABYTE), *[b"x" * MEGABYTE] * 120])


async def a_body_of_120_mb_in_chunks(target: Target) -> str:
    start = head(0).replace(b"content-length: 0", b"transfer-encoding: chunked")
    chunk = b"%x\r\n" % MEGABYTE + b"x" * MEGABYTE + b"\r\n"
    return await _send_pieces(target, [start, *[chunk] * 120, b"0\r\n\r\n"])


async def a_reader_that_stops(target: Target) -> str:
    """Requests more than any buffer holds and reads nothing; then checks whether the connection was closed."""
    reader, writer = await _open_connection(target, _UNREAD_BYTES)
    # Pauses the transport, not only the reader, so that unread data stays in the server's buffers.
    writer.transport.pause_reading()  # type: ignore[attr-defined]  # a socket's transport has it
    writer.write(request({"stream": True, "max_tokens": _LONG_ANSWER}))
    await asyncio.sleep(target.patience)
    writer.transport.resume_reading()  # type: ignore[attr-defined]
    received = 0
    try:
        async with asyncio.timeout(2):
            while piece := await reader.read(MEGABYTE):
                received += len(piece)
                if b"[DONE]" in piece:
                    return "whole answer"
    except TimeoutError:
        return _OPEN
    except ConnectionError:
        return _CUT
    finally:
        writer.transport.abort()
    return _CUT


async def well_behaved_client(target: Target) -> str:
    """A normal request; waits up to 30 seconds for the response.

    It is sent at once, before this process runs anything else: a client that is delayed between connecting and sending
    is a slow one, and the server may close its connection.
    """
    connection = socket.create_connection(("127.0.0.1", target.port))
    connection.sendall(request({"max_tokens": 8}, b"connection: close\r\n"))
    reader, writer = await asyncio.open_connection(sock=connection)
    try:
        return await _response_status(reader, 30.0)
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
"""Each client, and how many of them run at once."""


@dataclass(frozen=True, slots=True)
class AttackOutcome:
    """The outcomes of the attackers, and of well-behaved clients during the attack."""

    outcomes: Counter[str]
    others: Counter[str]

    @property
    def still_open(self) -> int:
        """How many attackers still had an open connection when they gave up."""
        return self.outcomes[_OPEN]


async def attack(client: Client, times: int, target: Target) -> AttackOutcome:
    """Run `times` attackers at once, with a well-behaved client during the attack."""
    over = asyncio.Event()
    others: Counter[str] = Counter()

    async def ask() -> None:
        while not over.is_set():
            others[await well_behaved_client(target)] += 1
            await asyncio.sleep(0.1)

    asking = asyncio.ensure_future(ask())
    try:
        outcomes = Counter(await asyncio.gather(*(client(target) for _ in range(times))))
    finally:
        over.set()
        await asking
    return AttackOutcome(outcomes, others)
