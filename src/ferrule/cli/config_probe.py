"""Probes what a configuration names: generates one token with each engine and lists the tools of each source."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from ferrule.cli.config_view import Row
from ferrule.cli.serve_sources import bus_of, mcp_of
from ferrule.core.message import ChatMessage
from ferrule.core.request import ToolCallRequest
from ferrule.engines.registry import load_engine
from ferrule.errors import FerruleError
from ferrule.server.addresses import mask_secrets
from ferrule.server.config.config import Config, EngineConfig
from ferrule.sources.mcp.servers import McpServers

_TIMEOUT_SECONDS = 60.0
_READY = "ready"


async def probe_config(config: Config) -> tuple[list[Row], list[str]]:
    """Probe every engine and source. Returns table rows and error messages."""
    rows: list[Row] = []
    problems: list[str] = []
    for result in await asyncio.gather(*(_engine(engine) for engine in config.engines), _mcp(config), _bus(config)):
        rows += result[0]
        problems += result[1]
    return rows, problems


ProbeResult = tuple[list[Row], list[str]]


async def _engine(engine: EngineConfig) -> ProbeResult:
    try:
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            message = await _one_token(engine.use)
    except TimeoutError:
        message = f"no answer within {_TIMEOUT_SECONDS:g} seconds"
    except FerruleError as failure:
        message = mask_secrets(failure.message)
    else:
        return [("engine", engine.name, message, "probe")], []
    return [("engine", engine.name, "does not answer", "probe")], [f"engine {engine.name}: {message}"]


async def _one_token(use: str) -> str:
    # In a thread: an in-process engine loads its model when it is created.
    engine = await asyncio.to_thread(load_engine, use)
    request = ToolCallRequest(messages=(ChatMessage.user("Hello."),), max_tokens=1)
    try:
        async with aclosing(engine.stream(request)) as events:
            async for _ in events:
                pass
    finally:
        await engine.close()
    return f"answers ({engine.traits.name})"


async def _mcp(config: Config) -> ProbeResult:
    servers = mcp_of(config.sources)
    if not servers.servers:
        return [], []
    async with McpServers(servers, settle_seconds=_TIMEOUT_SECONDS) as source:
        statuses = source.servers
    rows: list[Row] = [
        ("source", f"MCP {status.name}", f"{status.state}, {len(status.tools)} tools", "probe") for status in statuses
    ]
    return rows, [
        f"the MCP server {status.name}: {'; '.join(status.notices)}" for status in statuses if status.state != _READY
    ]


async def _bus(config: Config) -> ProbeResult:
    if not config.sources.nats:
        return [], []
    try:
        async with asyncio.timeout(_TIMEOUT_SECONDS), bus_of(config.sources) as bus:
            tools = await bus.tools()
    except (FerruleError, TimeoutError) as failure:
        message = failure.message if isinstance(failure, FerruleError) else "no answer"
        return [("source", "NATS", "does not answer", "probe")], [f"NATS: {mask_secrets(message)}"]
    return [("source", "NATS", f"{len(tools)} tools", "probe")], []
