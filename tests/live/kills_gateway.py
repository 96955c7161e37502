"""A gateway to be killed: `kills_gateway.py LEDGER EFFECTS ENGINE LEASE`. Says on which port it serves.

Its one tool writes a line to the file of effects, named by the key that the call travels under; its engine is a script
that calls the tool several times and then answers, slowly enough to be killed anywhere, or a real one.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

from ferrule.core.call import ToolCall
from ferrule.core.context import CallContext
from ferrule.core.event import Event
from ferrule.core.message import Role
from ferrule.core.reply import Reply
from ferrule.core.request import ToolCallRequest
from ferrule.engines.engine import ALL_CHOICES, Engine, Traits
from ferrule.engines.fake import events_of
from ferrule.engines.registry import load_engine
from ferrule.run.executor import ToolSettings
from ferrule.schema.tool_decorator import FunctionTool, tool
from ferrule.server.app import application
from ferrule.server.config.config import Config, EngineConfig, ServerConfig
from ferrule.server.process.server import serve
from ferrule.server.startup import open_gateway
from ferrule.sources.functions import Functions

SCRIPT = "script"
ROUNDS = 4
_PAUSE = 0.015


class Scripted(Engine):
    """Notes something in each round, and then says that all is done."""

    traits = Traits(name="script", honours=ALL_CHOICES)

    async def stream_request(self, request: ToolCallRequest) -> AsyncGenerator[Event, None]:
        given = sum(len(message.results) for message in request.messages if message.role is Role.TOOL)
        said = Reply.of("All done.")
        if given < ROUNDS:
            said = Reply.of(f"Step {given}: ", ToolCall.of("note", {"text": f"step {given}"}, id="same"))
        for event in events_of(said):
            await asyncio.sleep(_PAUSE)
            yield event

    async def close(self) -> None:
        return


def noting_in(effects: Path) -> FunctionTool[..., Any]:
    @tool(side_effects=True)
    async def note(text: str, context: CallContext) -> str:
        """Write a note down for ever."""
        await asyncio.sleep(2 * _PAUSE)
        with effects.open("a") as file:
            file.write(f"{context.call_id}\n")
        await asyncio.sleep(2 * _PAUSE)
        return f"noted: {text[:20]}"

    return note


async def main(ledger: str, effects: Path, engine: str, lease: float) -> None:
    config = Config(
        engines=(EngineConfig(name="model", use=engine),),
        server=ServerConfig(port=0),
        ledger=ledger,
        lease_seconds=lease,
        tools=ToolSettings(
            tools_require_confirmation_for_side_effects=False, tools_max_iterations=ROUNDS if engine == SCRIPT else 2
        ),
    )

    def chosen(use: str) -> Engine:
        return Scripted() if use == SCRIPT else load_engine(use)

    async with open_gateway(config, [Functions([noting_in(effects)], id="notes")], load=chosen) as gateway:
        await serve(application(gateway), config.server, lambda port: print(f"port {port}", flush=True))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], float(sys.argv[4])))
