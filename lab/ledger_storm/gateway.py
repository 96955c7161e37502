"""A process that serves stored responses from the shared ledger."""

from __future__ import annotations

import asyncio
from multiprocessing.connection import Connection
from pathlib import Path

from ferrule import Engine
from ferrule.gateway import Config, EngineConfig, ServerConfig, ToolSettings, application
from ferrule.server.config.config import TracesConfig
from ferrule.server.process.server import serve
from ferrule.server.startup import open_gateway
from ferrule.sources import Source
from lab.ledger_storm.script import MAX_ROUNDS, UNAPPROVED, ScriptedEngine, storm_tools


def run_gateway(ledger: str, effects: str, lease: float, ready: Connection) -> None:
    """Serve on a free port, which is sent over the connection, until the process is killed."""
    asyncio.run(serve_script(ledger, storm_tools(Path(effects)), lease, ready))


async def serve_script(ledger: str, source: Source, lease: float, ready: Connection) -> None:
    config = Config(
        engines=(EngineConfig(name="model", use="script"),),
        server=ServerConfig(port=0),
        ledger=ledger,
        lease_seconds=lease,
        approvals=(UNAPPROVED,),
        tools=ToolSettings(tools_max_iterations=MAX_ROUNDS),
        traces=TracesConfig(days=0),
    )

    def load(use: str) -> Engine:
        return ScriptedEngine()

    async with open_gateway(config, [source], load=load) as gateway:
        await serve(application(gateway), config.server, ready.send)
