"""A gateway for fuzzing, as a process: a fake engine that calls tools, two tools, a key with all permissions.

An audit hook, which nothing in the process can remove, logs every attempt to start a process to a file. Run as
`python -m lab.fuzz_gateway FILE`; it prints its URL.
"""

import asyncio
import hashlib
import os
import sys
from collections.abc import AsyncGenerator
from typing import Final

from ferrule import tool
from ferrule.core.call import ToolCall
from ferrule.core.event import Event
from ferrule.core.message import Role
from ferrule.core.reply import Reply
from ferrule.core.request import ToolCallRequest
from ferrule.engines.engine import ALL_CHOICES, Engine, Traits
from ferrule.engines.fake import events_of
from ferrule.server.app import application
from ferrule.server.config.config import Config, EngineConfig, GatewayLimits, KeyConfig, ServerConfig
from ferrule.server.process.server import serve
from ferrule.server.startup import open_gateway
from ferrule.sources.functions import Functions

KEY: Final = "fk_fuzz"
STARTS: Final = frozenset(
    {
        *("subprocess.Popen", "os.exec", "os.posix_spawn", "os.spawn", "os.system"),
        *("os.fork", "os.forkpty", "os.startfile", "pty.spawn"),
    }
)
"""The interpreter's audit events for starting a process."""


class ScriptedEngine(Engine):
    """Calls the first offered tool once, and then answers with text."""

    traits = Traits(name="fake", honours=ALL_CHOICES)

    async def stream_request(self, request: ToolCallRequest) -> AsyncGenerator[Event, None]:
        is_answered = any(message.role is Role.TOOL for message in request.messages)
        calls = request.tools and not is_answered
        reply = Reply.of(ToolCall.of(request.tools[0].name, {"query": "x"}, "call_1")) if calls else Reply.of("Quiet.")
        for event in events_of(reply):
            yield event

    async def count_tokens(self, request: ToolCallRequest) -> int:
        return sum(len(str(message.parts)) for message in request.messages)

    async def close(self) -> None:
        return


@tool
def search(query: str) -> dict[str, str]:
    """Searches for something."""
    return {"found": query}


@tool(side_effects=True)
def send_mail(to: str, text: str) -> str:
    """Sends a mail."""
    return "sent"


async def _serve() -> None:
    key = KeyConfig(
        name="fuzz", sha256=hashlib.sha256(KEY.encode()).hexdigest(), tools=("*",), approve=True, admin=True
    )
    config = Config(
        engines=(EngineConfig(name="fake", use="fake"),),
        keys=(key,),
        server=ServerConfig(port=0),
        limits=GatewayLimits(first_seconds=20, between_seconds=20, total_seconds=30),
    )
    async with open_gateway(config, [Functions([search, send_mail])], load=lambda use: ScriptedEngine()) as gateway:

        def up(port: int) -> None:
            print(f"serving on http://{config.server.host}:{port} ", flush=True)

        await serve(application(gateway), config.server, up, config.limits, telemetry=gateway.telemetry)


def log_process_starts(file: str) -> None:
    """Log every attempt to start a process to the file, from now on."""
    # Opened once and before the hook, which must do as little as possible: it gets every audit event.
    log = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def on_event(event: str, arguments: tuple[object, ...]) -> None:
        if event in STARTS:
            os.write(log, f"{event} {arguments!r:.200}\n".encode(errors="backslashreplace"))

    sys.addaudithook(on_event)


if __name__ == "__main__":
    log_process_starts(sys.argv[1])
    asyncio.run(_serve())
