"""A gateway on a real port: what connections get while it serves, drains and stops."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from ferrule.errors import DefinitionError
from ferrule.server.config.config import ServerConfig
from ferrule.server.process.server import open_port, serve
from server.client import Client
from server.watched import BODIES, CHAT, LogLines, StepEngine, gateway_with_log

BODY = b'{"messages": [{"role": "user", "content": "Hello."}], "stream": true}'
assert BODIES[CHAT]["messages"] == [{"role": "user", "content": "Hello."}]


class RawConnection:
    """One raw connection."""

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

    async def request(self, method: str, path: str, body: bytes = b"") -> tuple[int, dict[str, str]]:
        self.send(method, path, body)
        status, headers = await self.head()
        await self.reader.readexactly(int(headers["content-length"]))
        return status, headers

    async def read_all(self) -> bytes:
        return await self.reader.read()


@asynccontextmanager
async def serve_on_port(
    engine: StepEngine, **server: Any
) -> AsyncGenerator[tuple[int, Client, LogLines, asyncio.Task[None]]]:
    async with gateway_with_log(engine) as (client, lines):
        up = asyncio.Event()
        ports: list[int] = []

        def on_started(port: int) -> None:
            ports.append(port)
            up.set()

        server_config = ServerConfig(port=0, **server)
        serve_task = asyncio.ensure_future(
            serve(client.app, server_config, on_started, telemetry=client.gateway.telemetry)
        )
        await up.wait()
        try:
            yield ports[0], client, lines, serve_task
        finally:
            serve_task.cancel()
            await asyncio.gather(serve_task, return_exceptions=True)
            while OPEN:
                OPEN[-1].writer.close()
                await asyncio.gather(OPEN.pop().writer.wait_closed(), return_exceptions=True)


OPEN: list[RawConnection] = []


async def connect(port: int) -> RawConnection:
    OPEN.append(RawConnection(*await asyncio.open_connection("127.0.0.1", port)))
    return OPEN[-1]


def test_a_signal_drains_and_then_closes_everything() -> None:
    async def scenario() -> LogLines:
        engine = StepEngine(last=2)
        async with serve_on_port(engine, drain_seconds=30.0) as (port, client, lines, serve_task):
            streaming, idle = await connect(port), await connect(port)
            assert (await idle.request("GET", "/readyz"))[0] == 200
            streaming.send("POST", CHAT, BODY)
            await engine.started.wait()
            os.kill(os.getpid(), signal.SIGTERM)
            while not client.gateway.telemetry.drain.has_begun:
                await asyncio.sleep(0.01)
            # On an existing connection, and on a new one.
            assert (await idle.request("GET", "/readyz"))[0] == 503
            status, headers = await (await connect(port)).request("POST", CHAT, BODY)
            assert (status, headers["connection"], headers["retry-after"]) == (503, "close", "1")
            assert (await idle.request("POST", CHAT, BODY))[0] == 503
            assert await idle.read_all() == b""
            for _ in range(2):
                engine.steps.put_nowait(None)
            output = await streaming.read_all()
            assert output.count(b"word ") == 2
            assert b"data: [DONE]" in output
            await serve_task
            with pytest.raises(ConnectionRefusedError):
                await connect(port)
        return lines

    lines = asyncio.run(scenario())
    assert [lines.with_event(event)[0]["event"] for event in ("start", "drain", "drained", "stop")]
    assert lines.with_event("drain")[0]["under_way"] == 1
    assert lines.with_event("drained")[0]["count"] == 0


def test_a_stream_that_exceeds_the_drain_ends_with_an_error_and_a_complete_body() -> None:
    async def scenario() -> bytes:
        engine = StepEngine()
        async with serve_on_port(engine, drain_seconds=0.2) as (port, _, _, serve_task):
            streaming = await connect(port)
            streaming.send("POST", CHAT, BODY)
            engine.steps.put_nowait(None)
            await streaming.head()
            os.kill(os.getpid(), signal.SIGTERM)
            output = await streaming.read_all()
            await serve_task
            return output

    output = asyncio.run(scenario())
    assert b'"code": "draining"' in output
    # The last chunk of a chunked body: the stream ended properly.
    assert output.endswith(b"0\r\n\r\n")


def test_a_second_signal_ends_the_drain() -> None:
    async def scenario() -> bytes:
        engine = StepEngine()
        async with serve_on_port(engine, drain_seconds=3600.0) as (port, _, _, serve_task):
            streaming = await connect(port)
            streaming.send("POST", CHAT, BODY)
            engine.steps.put_nowait(None)
            await streaming.head()
            for _ in range(2):
                os.kill(os.getpid(), signal.SIGTERM)
                await asyncio.sleep(0.05)
            output = await streaming.read_all()
            await serve_task
            return output

    assert b'"code": "draining"' in asyncio.run(scenario())


def test_serving_on_a_port_in_use_fails_at_once() -> None:
    async def scenario() -> None:
        with open_port(ServerConfig(port=0)) as listener, pytest.raises(DefinitionError, match="cannot listen on"):
            await serve(None, ServerConfig(port=listener.getsockname()[1]))

    asyncio.run(scenario())
