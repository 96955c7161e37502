"""What a connection may take, on real sockets: uvicorn with our limits in front of a small application."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from ferrule.server.config.config import Limits, Listening
from ferrule.server.process.server import serve

SHORT = Limits(header_seconds=0.3, header_bytes=4_000, send_seconds=0.3)
PATIENT = replace(SHORT, header_seconds=30.0)
HELLO = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n"
MEGABYTE = 1_000_000


class App:
    """Answers with the Host that it was told; `/large` with more than any buffer holds, `/early` before the body."""

    def __init__(self) -> None:
        self.began = 0
        self.ended = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.began += 1
        try:
            host = b",".join(value for name, value in scope["headers"] if name == b"host")
            if scope["path"] != "/early":
                while (await receive()).get("more_body"):
                    pass
            await send({"type": "http.response.start", "status": 200, "headers": []})
            for _ in range(64 if scope["path"] == "/large" else 0):
                await send({"type": "http.response.body", "body": b"x" * MEGABYTE, "more_body": True})
            await send({"type": "http.response.body", "body": b"<" + host + b">"})
        finally:
            self.ended += 1


Opened = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


@asynccontextmanager
async def served(limits: Limits) -> AsyncGenerator[tuple[App, Opened]]:
    app, ports = App(), asyncio.Queue[int]()
    serving = asyncio.ensure_future(serve(app, Listening(port=0, drain_seconds=0.0), ports.put_nowait, limits))
    port = await asyncio.wait_for(ports.get(), 30)
    writers: list[asyncio.StreamWriter] = []

    async def opened() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writers.append(writer)
        return reader, writer

    try:
        yield app, opened
    finally:
        for writer in writers:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


async def rest(reader: asyncio.StreamReader) -> bytes:
    """Everything until the other side closes; cut off is as good as closed."""
    pieces: list[bytes] = []
    with contextlib.suppress(ConnectionError):
        async with asyncio.timeout(30):
            while piece := await reader.read(MEGABYTE):
                pieces.append(piece)
    return b"".join(pieces)


def said(limits: Limits, *pieces: bytes, pause: float = 0.0) -> tuple[bytes, int]:
    async def scenario() -> tuple[bytes, int]:
        async with served(limits) as (app, opened):
            reader, writer = await opened()
            reading = asyncio.ensure_future(rest(reader))
            for piece in pieces:
                if reading.done():
                    break
                with contextlib.suppress(ConnectionError):
                    writer.write(piece)
                    await writer.drain()
                await asyncio.sleep(pause)
            return await reading, app.began

    return asyncio.run(scenario())


@pytest.mark.parametrize(
    "head, answer",
    [
        (b"", b""),
        (b"GET / HT", b"HTTP/1.1 408"),
        (b"GET / HTTP/1.1\r\nhost: localhost\r\nx: y", b"HTTP/1.1 408"),
        (b"\r\n", b"HTTP/1.1 408"),
    ],
)
def test_a_head_that_does_not_come_is_not_waited_for(head: bytes, answer: bytes) -> None:
    got, began = said(SHORT, head)
    assert got.startswith(answer)
    assert bool(got) == bool(answer)
    assert began == 0


def test_a_head_that_drips_is_not_waited_for_either() -> None:
    got, began = said(SHORT, b"GET / HTTP/1.1\r\n", *[b"x: y\r\n"] * 20, pause=0.05)
    assert got.startswith(b"HTTP/1.1 408")
    assert began == 0


def test_blank_lines_after_an_answer_do_not_keep_a_connection() -> None:
    got, began = said(SHORT, HELLO, *[b"\r\n"] * 30, pause=0.05)
    assert got.startswith(b"HTTP/1.1 200")
    assert began == 1


@pytest.mark.parametrize("head", [b"GET /" + b"a" * MEGABYTE, b"GET / HTTP/1.1\r\nx: " + b"y" * 8 * MEGABYTE])
def test_a_head_without_end_is_cut_off(head: bytes) -> None:
    got, began = said(PATIENT, head)
    # What was on its way when the connection closed may cost the client the answer.
    assert not got or got.startswith(b"HTTP/1.1 431")
    assert began == 0


def test_a_connection_may_be_used_again_and_its_second_head_is_watched_too() -> None:
    async def scenario() -> bytes:
        async with served(SHORT) as (_, opened):
            reader, writer = await opened()
            for _ in range(3):
                writer.write(HELLO)
                await asyncio.wait_for(reader.readuntil(b"0\r\n\r\n"), 30)
            writer.write(b"GET / HT")
            return await rest(reader)

    assert asyncio.run(scenario()).startswith(b"HTTP/1.1 408")


def test_the_rest_of_a_body_that_was_answered_is_taken_so_that_the_client_reads_the_answer() -> None:
    async def scenario() -> bytes:
        async with served(PATIENT) as (_, opened):
            reader, writer = await opened()
            writer.write(b"POST /early HTTP/1.1\r\nhost: localhost\r\ncontent-length: 20000000\r\n\r\n")
            for _ in range(20):
                writer.write(b"x" * MEGABYTE)
                await writer.drain()
            return await asyncio.wait_for(reader.readuntil(b"0\r\n\r\n"), 30)

    assert asyncio.run(scenario()).startswith(b"HTTP/1.1 200")


def test_a_body_that_drips_after_its_answer_ends_with_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    from ferrule.server.auth import connection_limits as limits_connection

    monkeypatch.setattr(limits_connection, "_AFTERTHOUGHT_SECONDS", 0.3)
    head = b"POST /early HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n\r\n"
    got, _ = said(PATIENT, head, *[b"x"] * 20, pause=0.05)
    assert got.startswith(b"HTTP/1.1 200")


def test_a_reader_that_stops_is_left_and_its_answer_ended() -> None:
    async def scenario() -> tuple[int, int]:
        async with served(SHORT) as (app, opened):
            for _ in range(5):
                _, writer = await opened()
                writer.transport.pause_reading()  # type: ignore[attr-defined]
                writer.write(b"GET /large HTTP/1.1\r\nhost: localhost\r\n\r\n")
            async with asyncio.timeout(30):
                while app.ended < 5:
                    await asyncio.sleep(0.05)
            return app.began, app.ended

    assert asyncio.run(scenario()) == (5, 5)


@pytest.mark.parametrize(
    "address, host",
    [
        (b"/", b"localhost"),
        (b"http://evil.example/", b"evil.example"),
        (b"http://evil.example:81/?x", b"evil.example:81"),
        (b"http://a@evil.example/", b"a@evil.example"),
        (b"/http://evil.example/", b"localhost"),
    ],
)
def test_an_address_that_names_a_host_counts_and_not_the_header(address: bytes, host: bytes) -> None:
    request = b"GET " + address + b" HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
    got, _ = said(PATIENT, request)
    assert b"<" + host + b">" in got


def test_two_hosts_reach_the_application_as_two() -> None:
    request = b"GET / HTTP/1.1\r\nhost: localhost\r\nhost: evil.example\r\nconnection: close\r\n\r\n"
    got, _ = said(PATIENT, request)
    assert b"<localhost,evil.example>" in got
