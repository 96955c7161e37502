"""A gateway to be killed while a task runs: `task_gateway.py LEDGER FOLDER PORT`. Says on which port it serves.

Its only tools are those of the `task_server.py` on PORT. Its engine is a script: it calls `research`, and then says
what the result was.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

from ferrule.core.call import ToolCall
from ferrule.core.event import Event
from ferrule.core.message import Role
from ferrule.core.reply import Reply
from ferrule.core.request import ToolCallRequest
from ferrule.engines.engine import ALL_CHOICES, Engine, Traits
from ferrule.engines.fake import events_of
from ferrule.run.executor import ToolSettings
from ferrule.server.app import application
from ferrule.server.config.config import Config, EngineConfig, ServerConfig, SourcesConfig
from ferrule.server.process.server import serve
from ferrule.server.startup import open_gateway
from ferrule.sources.mcp.servers import McpServers
from live.task_world import TaskServer
from waiting import PATIENCE

LEASE = 1.0
# Far less than the task takes.
TOOL_SECONDS = 10.0


class Scripted(Engine):
    traits = Traits(name="script", honours=ALL_CHOICES)

    async def stream_request(self, request: ToolCallRequest) -> AsyncGenerator[Event, None]:
        results = [one for message in request.messages if message.role is Role.TOOL for one in message.results]
        reply = Reply.of(ToolCall.of("tasks_research", {"topic": "rain"}, id="same"))
        if results:
            reply = Reply.of(f"The result: {results[0].content}")
        for event in events_of(reply):
            yield event

    async def close(self) -> None:
        return


async def main(ledger: str, folder: Path, port: int) -> None:
    config = Config(
        engines=(EngineConfig(name="model", use="script"),),
        server=ServerConfig(port=0, drain_seconds=1),
        ledger=ledger,
        lease_seconds=LEASE,
        approval_patience_seconds=PATIENCE,
        sources=SourcesConfig(mcp_question_seconds=PATIENCE),
        tools=ToolSettings(tools_per_tool_timeout_seconds=TOOL_SECONDS),
    )
    source = McpServers([TaskServer(folder, port).server()], settle_seconds=PATIENCE)
    async with open_gateway(config, [source], load=lambda use: Scripted()) as gateway:
        app = application(gateway)
        await serve(app, config.server, lambda bound: print(f"port {bound}", flush=True), telemetry=gateway.telemetry)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])))
