"""A gateway to be fuzzed, as a process: a fake engine that calls tools, two tools, a key with every right.

Whatever would start a process is written to a file by an audit hook, which nothing in the process can take out again.
Run as `python -m lab.fuzz_gateway FILE`; says where it serves.
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
from ferrule.server.config.config import Config, EngineConfig, KeyConfig, Limits, Listening
from ferrule.server.process.server import serve
from ferrule.server.startup import opened
from ferrule.sources.functions import Functions

KEY: Final = "fk_fuzz"
STARTS: Final = frozenset(
    {
        *("subprocess.Popen", "os.exec", "os.posix_spawn", "os.spawn", "os.system"),
        *("os.fork", "os.forkpty", "os.startfile", "pty.spawn"),
    }
)
"""The interpreter's own events for everything that begins a process."""


class Talking(Engine):
    """Calls the first tool that it is offered, once, and then says something."""

    traits = Traits(name="fake", honours=ALL_CHOICES)

    async def stream(self, request: ToolCallRequest) -> AsyncGenerator[Event, None]:
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


async def _served() -> None:
    key = KeyConfig(
        name="fuzz", sha256=hashlib.sha256(KEY.encode()).hexdigest(), tools=("*",), approve=True, admin=True
    )
    config = Config(
        engines=(EngineConfig(name="fake", use="fake"),),
        keys=(key,),
        listening=Listening(port=0),
        limits=Limits(first_seconds=20, between_seconds=20, total_seconds=30),
    )
    async with opened(config, [Functions([search, send_mail])], pick=lambda use: Talking()) as gateway:

        def up(port: int) -> None:
            print(f"serving on http://{config.listening.host}:{port} ", flush=True)

        await serve(application(gateway), config.listening, up, config.limits, watch=gateway.watch)


def tell_of_processes(file: str) -> None:
    """From now on whatever would start a process is told in the file."""
    # Opened once and before the hook, which must do as little as can be: it hears everything.
    told = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def hear(event: str, given: tuple[object, ...]) -> None:
        if event in STARTS:
            os.write(told, f"{event} {given!r:.200}\n".encode(errors="backslashreplace"))

    sys.addaudithook(hear)


if __name__ == "__main__":
    tell_of_processes(sys.argv[1])
    asyncio.run(_served())
