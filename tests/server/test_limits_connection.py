"""Limits of a connection on real sockets: uvicorn with our protocol in front of a small application."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from ferrule.server.config.config import GatewayLimits, ServerConfig
from ferrule.server.process import event_loop
from ferrule.server.process.server import serve
from waiting import PATIENCE

SHORT = GatewayLimits(header_seconds=0.3, header_bytes=4_000, send_seconds=0.3)
PATIENT = replace(SHORT, header_seconds=30.0)
HELLO = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n"
MEGABYTE = 1_000_000


class App:
    """Responds with the Host header; `/large` with more than any buffer holds, `/early` before the body is read."""

    def __init__(self) -> None:
        self.started = 0
        self.ended = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.started += 1
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


Connect = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


@asynccontextmanager
async def serve_app(limits: GatewayLimits) -> AsyncGenerator[tuple[App, Connect]]:
    app, ports = App(), asyncio.Queue[int]()
    server = asyncio.ensure_future(serve(app, ServerConfig(port=0, drain_seconds=0.0), ports.put_nowait, limits))
    port = await asyncio.wait_for(ports.get(), PATIENCE)
    writers: list[asyncio.StreamWriter] = []

    async def connect() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writers.append(writer)
        return reader, writer

    try:
        yield app, connect
    finally:
        for writer in writers:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()
        server.cancel()
        await asyncio.gather(server, return_exceptions=True)


async def read_all(reader: asyncio.StreamReader) -> bytes:
    """Read until the server closes or aborts the connection."""
    pieces: list[bytes] = []
    with contextlib.suppress(ConnectionError):
        async with asyncio.timeout(PATIENCE):
            while piece := await reader.read(MEGABYTE):
                pieces.append(piece)
    return b"".join(pieces)


def exchange(limits: GatewayLimits, *pieces: bytes, pause: float = 0.0) -> tuple[bytes, int]:
    async def scenario() -> tuple[bytes, int]:
        async with serve_app(limits) as (app, connect):
            reader, writer = await connect()
            response = asyncio.ensure_future(read_all(reader))
            for piece in pieces:
                if response.done():
                    break
                with contextlib.suppress(ConnectionError):
                    writer.write(piece)
                    await writer.drain()
                await asyncio.sleep(pause)
            return await response, app.started

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
def test_an_incomplete_head_times_out(head: bytes, answer: bytes) -> None:
    response, started = exchange(SHORT, head)
    assert response.startswith(answer)
    assert bool(response) == bool(answer)
    assert started == 0


def test_a_head_that_arrives_slowly_times_out() -> None:
    response, began = exchange(SHORT, b"GET / HTTP/1.1\r\n", *[b"x: y\r\n"] * 20, pause=0.05)
    assert response.startswith(b"HTTP/1.1 408")
    assert began == 0


def test_a_head_that_arrived_while_the_loop_was_busy_is_answered() -> None:
    """uvloop runs timers before it reads: a head that waits in the socket must be read before its time is up."""

    async def scenario() -> bytes:
        async with serve_app(SHORT) as (_, connect):
            reader, writer = await connect()
            await asyncio.sleep(0.05)
            os.write(writer.get_extra_info("socket").fileno(), HELLO)
            time.sleep(2 * SHORT.header_seconds)
            async with asyncio.timeout(PATIENCE):
                return await reader.readline()

    assert event_loop.run(scenario()).startswith(b"HTTP/1.1 200")


def test_blank_lines_after_an_answer_do_not_keep_a_connection() -> None:
    response, began = exchange(SHORT, HELLO, *[b"\r\n"] * 30, pause=0.05)
    assert response.startswith(b"HTTP/1.1 200")
    assert began == 1


@pytest.mark.parametrize("head", [b"GET /" + b"a" * MEGABYTE, b"GET / HTTP/1.1\r\nx: " + b"y" * 8 * MEGABYTE])
def test_a_head_that_is_too_long_is_refused(head: bytes) -> None:
    response, began = exchange(PATIENT, head)
    # Data in transit when the connection closes may make the client lose the response.
    assert not response or response.startswith(b"HTTP/1.1 431")
    assert began == 0


def test_a_reused_connection_limits_its_second_head_too() -> None:
    async def scenario() -> bytes:
        async with serve_app(SHORT) as (_, opened):
            reader, writer = await opened()
            for _ in range(3):
                writer.write(HELLO)
                await asyncio.wait_for(reader.readuntil(b"0\r\n\r\n"), PATIENCE)
            writer.write(b"GET / HT")
            return await read_all(reader)

    assert asyncio.run(scenario()).startswith(b"HTTP/1.1 408")


def test_the_rest_of_a_body_is_read_after_an_early_response() -> None:
    async def scenario() -> bytes:
        async with serve_app(PATIENT) as (_, opened):
            reader, writer = await opened()
            writer.write(b"POST /early HTTP/1.1\r\nhost: localhost\r\ncontent-length: 20000000\r\n\r\n")
            for _ in range(20):
                writer.write(b"x" * MEGABYTE)
                await writer.drain()
            return await asyncio.wait_for(reader.readuntil(b"0\r\n\r\n"), PATIENCE)

    assert asyncio.run(scenario()).startswith(b"HTTP/1.1 200")


def test_a_body_that_continues_slowly_after_the_response_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    from ferrule.server.auth import connection_limits as limits_connection

    monkeypatch.setattr(limits_connection, "_REST_OF_BODY_SECONDS", 0.3)
    head = b"POST /early HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n\r\n"
    response, _ = exchange(PATIENT, head, *[b"x"] * 20, pause=0.05)
    assert response.startswith(b"HTTP/1.1 200")


def test_a_client_that_stops_reading_is_disconnected_and_its_response_ended() -> None:
    async def scenario() -> tuple[int, int]:
        async with serve_app(SHORT) as (app, opened):
            for _ in range(5):
                _, writer = await opened()
                writer.transport.pause_reading()  # type: ignore[attr-defined]
                writer.write(b"GET /large HTTP/1.1\r\nhost: localhost\r\n\r\n")
            async with asyncio.timeout(PATIENCE):
                while app.ended < 5:
                    await asyncio.sleep(0.05)
            return app.started, app.ended

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
def test_an_absolute_request_target_overrides_the_host_header(address: bytes, host: bytes) -> None:
    request = b"GET " + address + b" HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
    response, _ = exchange(PATIENT, request)
    assert b"<" + host + b">" in response


def test_two_host_headers_reach_the_application() -> None:
    request = b"GET / HTTP/1.1\r\nhost: localhost\r\nhost: evil.example\r\nconnection: close\r\n\r\n"
    response, _ = exchange(PATIENT, request)
    assert b"<localhost,evil.example>" in response
