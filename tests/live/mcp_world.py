"""Real MCP servers for the live tests: two reference servers (scripts/setup-mcp) and our own, over two transports."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ferrule.core.context import CallContext, Progress
from ferrule.core.outcome import Answered, Outcome
from ferrule.sources.mcp.config import HttpTransport, Server, StdioTransport, Timeouts
from ferrule.sources.mcp.elicitation import Elicit, decline
from ferrule.sources.mcp.servers import McpServers
from waiting import PATIENCE

ROOT = Path(__file__).parents[2]
_PACKAGES = ROOT / ".cache" / "mcp" / "node_modules" / "@modelcontextprotocol"
_OWN = Path(__file__).parent / "mcp_server.py"


def everything(name: str = "every") -> Server:
    return Server(name, StdioTransport("node", (str(_PACKAGES / "server-everything/dist/index.js"), "stdio")))


def filesystem(folder: Path, name: str = "files") -> Server:
    entry = str(_PACKAGES / "server-filesystem/dist/index.js")
    return Server(name, StdioTransport("node", (entry, str(folder))), trusted=True)


def own(name: str = "own", call: float = 60.0) -> Server:
    return Server(name, StdioTransport(sys.executable, (str(_OWN), "stdio")), timeouts=Timeouts(call=call))


def hanging(name: str = "hangs") -> Server:
    return Server(name, StdioTransport(sys.executable, ("-c", "import sys; sys.stdin.read()")))


def web(port: int, name: str = "web") -> Server:
    return Server(name, HttpTransport(f"http://127.0.0.1:{port}/mcp"))


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@contextmanager
def own_on_http(port: int) -> Generator[subprocess.Popen[bytes]]:
    with _running([sys.executable, str(_OWN), "http", str(port)], port) as process:
        yield process


@contextmanager
def everything_on_http(port: int) -> Generator[subprocess.Popen[bytes]]:
    entry = str(_PACKAGES / "server-everything/dist/index.js")
    with _running(["env", f"PORT={port}", "node", entry, "streamableHttp"], port) as process:
        yield process


@contextmanager
def _running(command: list[str], port: int) -> Generator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        await_port(port)
        yield process
    finally:
        process.kill()
        process.wait()


def await_port(port: int) -> None:
    give_up = time.monotonic() + 30
    while time.monotonic() < give_up:
        with socket.socket() as caller:
            if caller.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise TimeoutError(f"nothing listens on {port}")


def open_servers(*servers: Server, elicit: Elicit = decline) -> McpServers:
    """A source that waits for its servers, also on a busy machine."""
    return McpServers(servers, elicit=elicit, settle_seconds=60)


async def call_tool(
    source: McpServers, name: str, tell: Callable[[Progress], None] = lambda received: None, **arguments: Any
) -> Outcome:
    return await source.call(name, arguments, CallContext(call_id="call-1", on_progress=tell))


async def start_waiting_call(source: McpServers, server: str, mark: str) -> asyncio.Task[Outcome]:
    """A call of `wait` that the server has started."""
    call = asyncio.create_task(call_tool(source, f"{server}_wait", mark=mark, seconds=600))
    async with asyncio.timeout(PATIENCE):
        while mark not in (await answer(source, f"{server}_beginnings"))["result"]:
            assert not call.done(), call.result()
    return call


async def answer(source: McpServers, name: str, **arguments: Any) -> Any:
    outcome = await call_tool(source, name, **arguments)
    assert isinstance(outcome, Answered), outcome
    assert not outcome.is_error, outcome
    return outcome.content
