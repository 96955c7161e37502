"""Whether what a configuration names is really there: each engine is asked for one token, each source for its tools."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from ferrule.cli.config_view import Row
from ferrule.cli.serve_sources import bus_of, mcp_of
from ferrule.core.message import ChatMessage
from ferrule.core.request import ToolCallRequest
from ferrule.engines.registry import load_engine
from ferrule.errors import FerruleError
from ferrule.server.addresses import without_secrets
from ferrule.server.config.config import Config, EngineConfig
from ferrule.sources.mcp.servers import McpServers

_PATIENCE = 60.0
_READY = "ready"


async def looked_at(config: Config) -> tuple[list[Row], list[str]]:
    """How it stands with each, and what is wrong."""
    rows: list[Row] = []
    wrong: list[str] = []
    for found in await asyncio.gather(*(_engine(one) for one in config.engines), _mcp(config), _bus(config)):
        rows += found[0]
        wrong += found[1]
    return rows, wrong


Found = tuple[list[Row], list[str]]


async def _engine(engine: EngineConfig) -> Found:
    try:
        async with asyncio.timeout(_PATIENCE):
            told = await _one_token(engine.use)
    except TimeoutError:
        told = f"no answer within {_PATIENCE:g} seconds"
    except FerruleError as failure:
        told = without_secrets(failure.message)
    else:
        return [("engine", engine.name, told, "asked")], []
    return [("engine", engine.name, "does not answer", "asked")], [f"the engine {engine.name}: {told}"]


async def _one_token(use: str) -> str:
    # In a thread: an engine in this process loads its model when it is made.
    engine = await asyncio.to_thread(load_engine, use)
    request = ToolCallRequest(messages=(ChatMessage.user("Hello."),), max_tokens=1)
    try:
        async with aclosing(engine.stream(request)) as events:
            async for _ in events:
                pass
    finally:
        await engine.close()
    return f"answers, by {engine.traits.name}"


async def _mcp(config: Config) -> Found:
    servers = mcp_of(config.sources)
    if not servers.servers:
        return [], []
    async with McpServers(servers, settle_seconds=_PATIENCE) as source:
        views = source.servers
    rows: list[Row] = [("source", f"MCP {one.name}", f"{one.state}, {len(one.tools)} tools", "asked") for one in views]
    return rows, [f"the MCP server {one.name}: {'; '.join(one.notices)}" for one in views if one.state != _READY]


async def _bus(config: Config) -> Found:
    if not config.sources.nats:
        return [], []
    try:
        async with asyncio.timeout(_PATIENCE), bus_of(config.sources) as bus:
            tools = await bus.tools()
    except (FerruleError, TimeoutError) as failure:
        told = failure.message if isinstance(failure, FerruleError) else "no answer"
        return [("source", "NATS", "does not answer", "asked")], [f"the bus: {without_secrets(told)}"]
    return [("source", "NATS", f"{len(tools)} tools", "asked")], []
