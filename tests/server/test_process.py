"""A gateway on a real port: what a connection gets while the gateway is up, drains and is gone."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from ferrule.errors import DefinitionError
from ferrule.server.config.config import Listening
from ferrule.server.process.port import opened_port
from ferrule.server.process.server import serve
from server.client import Client
from server.watched import BODIES, CHAT, Lines, Stepping, watched_gateway

ASKED = b'{"messages": [{"role": "user", "content": "Hello."}], "stream": true}'
assert BODIES[CHAT]["messages"] == [{"role": "user", "content": "Hello."}]


class Raw:
    """One connection, in bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, method: str, path: str, body: bytes = b"") -> None:
        head = f"{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n\r\n"
        self.writer.write(head.encode() + body)

    async def head(self) -> tuple[int, dict[str, str]]:
        lines = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines[1:] if line)
        return int(lines[0].split()[1]), headers

    async def asked(self, method: str, path: str, body: bytes = b"") -> tuple[int, dict[str, str]]:
        self.send(method, path, body)
        status, headers = await self.head()
        await self.reader.readexactly(int(headers["content-length"]))
        return status, headers

    async def rest(self) -> bytes:
        return await self.reader.read()


@asynccontextmanager
async def on_a_port(
    engine: Stepping, **listening: Any
) -> AsyncGenerator[tuple[int, Client, Lines, asyncio.Task[None]]]:
    async with watched_gateway(engine) as (client, lines):
        up = asyncio.Event()
        ports: list[int] = []

        def started(port: int) -> None:
            ports.append(port)
            up.set()

        made = Listening(port=0, **listening)
        serving = asyncio.ensure_future(serve(client.app, made, started, watch=client.gateway.watch))
        await up.wait()
        try:
            yield ports[0], client, lines, serving
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)
            while OPEN:
                OPEN[-1].writer.close()
                await asyncio.gather(OPEN.pop().writer.wait_closed(), return_exceptions=True)


OPEN: list[Raw] = []


async def connected(port: int) -> Raw:
    OPEN.append(Raw(*await asyncio.open_connection("127.0.0.1", port)))
    return OPEN[-1]


def test_a_signal_drains_and_then_everything_is_closed() -> None:
    async def scenario() -> Lines:
        engine = Stepping(last=2)
        async with on_a_port(engine, drain_seconds=30.0) as (port, client, lines, serving):
            streaming, kept = await connected(port), await connected(port)
            assert (await kept.asked("GET", "/readyz"))[0] == 200
            streaming.send("POST", CHAT, ASKED)
            await engine.began.wait()
            os.kill(os.getpid(), signal.SIGTERM)
            while not client.gateway.watch.drain.has_begun:
                await asyncio.sleep(0.01)
            # On a connection from before, and on a new one.
            assert (await kept.asked("GET", "/readyz"))[0] == 503
            status, headers = await (await connected(port)).asked("POST", CHAT, ASKED)
            assert (status, headers["connection"], headers["retry-after"]) == (503, "close", "1")
            assert (await kept.asked("POST", CHAT, ASKED))[0] == 503
            assert await kept.rest() == b""
            for _ in range(2):
                engine.leave.put_nowait(None)
            said = await streaming.rest()
            assert said.count(b"word ") == 2
            assert b"data: [DONE]" in said
            await serving
            with pytest.raises(ConnectionRefusedError):
                await connected(port)
        return lines

    lines = asyncio.run(scenario())
    assert [lines.named(event)[0]["event"] for event in ("start", "drain", "drained", "stop")]
    assert lines.named("drain")[0]["under_way"] == 1
    assert lines.named("drained")[0]["count"] == 0


def test_what_does_not_end_in_time_ends_with_an_error_and_a_whole_stream() -> None:
    async def scenario() -> bytes:
        engine = Stepping()
        async with on_a_port(engine, drain_seconds=0.2) as (port, _, _, serving):
            streaming = await connected(port)
            streaming.send("POST", CHAT, ASKED)
            engine.leave.put_nowait(None)
            await streaming.head()
            os.kill(os.getpid(), signal.SIGTERM)
            said = await streaming.rest()
            await serving
            return said

    said = asyncio.run(scenario())
    assert b'"code": "draining"' in said
    # The last chunk of a chunked body: the stream was ended, not cut.
    assert said.endswith(b"0\r\n\r\n")


def test_a_second_signal_waits_no_longer() -> None:
    async def scenario() -> bytes:
        engine = Stepping()
        async with on_a_port(engine, drain_seconds=3600.0) as (port, _, _, serving):
            streaming = await connected(port)
            streaming.send("POST", CHAT, ASKED)
            engine.leave.put_nowait(None)
            await streaming.head()
            for _ in range(2):
                os.kill(os.getpid(), signal.SIGTERM)
                await asyncio.sleep(0.05)
            said = await streaming.rest()
            await serving
            return said

    assert b'"code": "draining"' in asyncio.run(scenario())


def test_a_port_that_is_taken_ends_it_before_it_begins() -> None:
    async def scenario() -> None:
        with opened_port(Listening(port=0)) as taken, pytest.raises(DefinitionError, match="cannot be listened on"):
            await serve(None, Listening(port=taken.getsockname()[1]))

    asyncio.run(scenario())
