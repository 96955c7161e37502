"""Shared by the live tests of the bus: a server, workers with small functions, and a listener for all messages."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import IO, Any

from ferrule.core.context import CallContext
from ferrule.schema.tool_decorator import tool
from ferrule.sources.bus.bus import Bus
from ferrule.sources.bus.connection import Connection, Message
from ferrule.sources.bus.worker import Worker
from ferrule.sources.functions import Function, Functions
from lab.bus_server import NatsServer, nats_server
from waiting import PATIENCE

KEY = b"a key of at least sixteen bytes"
Scenario = Callable[[NatsServer], Coroutine[Any, Any, None]]


def run(scenario: Scenario, configuration: str = "") -> None:
    """Run a scenario on its own server."""
    with nats_server(configuration) as server:
        asyncio.run(scenario(server))


@asynccontextmanager
async def on_bus(server: NatsServer, *functions: Function, **options: Any) -> AsyncGenerator[Bus]:
    """A bus and one worker with these functions."""
    async with Worker(Functions(functions), server.url, **options), Bus(server.url) as bus:
        yield bus


@asynccontextmanager
async def nats_client(url: str) -> AsyncGenerator[Connection]:
    connection = Connection(url)
    await connection.open()
    try:
        yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def record_messages(url: str, subject: str = ">") -> AsyncGenerator[list[Message]]:
    """Record all messages on the bus."""
    messages: list[Message] = []

    async def keep(message: Message) -> None:
        messages.append(message)

    async with nats_client(url) as connection:
        await connection.subscribe(subject, keep)
        await connection.flush()
        yield messages
        await connection.flush()


@contextmanager
def recorded_posts() -> Generator[tuple[list[str], Function]]:
    """A list, and a tool with side effects that appends to it."""
    posted: list[str] = []

    @tool(side_effects=True, bound_to=("market.post", "1.0"))
    async def post(text: str, context: CallContext) -> str:
        """Posts a notice."""
        posted.append(text)
        await asyncio.sleep(0.05)
        return f"posted {text}"

    yield posted, post


@tool(bound_to=("echo.say", "1.2"))
async def say(text: str) -> str:
    """Says it again."""
    return text


@tool(bound_to=("echo.sleep", "1.0"))
async def sleep(seconds: float, context: CallContext) -> float:
    """Takes its time and tells how far it is."""
    for step in range(10):
        context.report(step, 10)
        await asyncio.sleep(seconds / 10)
    return seconds


class BlockingTool:
    """A tool that sets `begun` when it starts, and ends when the test lets it."""

    def __init__(self) -> None:
        self.begun = 0
        self.let_go = asyncio.Event()
        self.tool = tool(name="hold", bound_to=("echo.hold", "1.0"))(self._hold)

    async def _hold(self) -> str:
        self.begun += 1
        await self.let_go.wait()
        return "held"


@contextmanager
def worker_process(
    *options: str,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stderr: int | IO[str] | None = None,
    python: str | Path = sys.executable,
) -> Generator[subprocess.Popen[str]]:
    """A ready `ferrule worker` process. It is stopped at the end, even if it is suspended."""
    command = [str(python), "-m", "ferrule", "worker", *options]
    with subprocess.Popen(
        command, cwd=cwd, env={**os.environ, **(env or {})}, stdout=subprocess.PIPE, stderr=stderr, text=True
    ) as process:
        assert process.stdout is not None
        while process.stdout.readline() != "ready\n":
            assert process.poll() is None
        try:
            yield process
        finally:
            process.send_signal(signal.SIGCONT)
            process.terminate()
            process.wait(PATIENCE)  # before its pipes are closed, so that its last output does not fail
