"""Creates the sources that a gateway's configuration names. Only the CLI may start the programs in it."""

from __future__ import annotations

import os
from argparse import ArgumentTypeError
from collections.abc import Sequence
from pathlib import Path

from ferrule.cli.bus_option import KEY_VARIABLE
from ferrule.cli.function_option import AnyTool, read_functions
from ferrule.cli.serve_pins import PinnedServers, PinsFile
from ferrule.errors import DefinitionError
from ferrule.server.config.config import Config, SourcesConfig
from ferrule.sources.bus.bus import Bus
from ferrule.sources.functions import Functions
from ferrule.sources.mcp.config import McpConfig, Server, StdioTransport, read_config
from ferrule.sources.mcp.server_connection import ConnectionOptions
from ferrule.sources.mcp.servers import McpServers
from ferrule.sources.source import Source

COMMAND_SERVER = "mcp"
"""The name of the server from `mcp_command`."""


def sources_of(config: Config, functions: Sequence[AnyTool] = ()) -> list[Source]:
    """Create all configured sources, and add `functions` to the configured functions. Nothing is connected yet."""
    settings = config.sources
    tools = [*functions, *functions_of(settings)]
    sources: list[Source] = [Functions(tools)] if tools else []
    servers = mcp_of(settings)
    if servers.servers or servers.faults:
        sources.append(_mcp(servers, settings))
    if settings.nats:
        sources.append(bus_of(settings))
    return sources


def functions_of(settings: SourcesConfig) -> list[AnyTool]:
    try:
        return [function for place in settings.functions for function in read_functions(place)]
    except ArgumentTypeError as problem:
        raise DefinitionError(
            f"sources.functions: {problem}",
            hint="Write my_module:NAME or my_tools.py:NAME, relative to the current directory.",
        ) from problem


def mcp_of(settings: SourcesConfig) -> McpConfig:
    """The servers of the mcp.json and of `mcp_command`."""
    config = read_config(settings.mcp_config) if settings.mcp_config else McpConfig()
    if not settings.mcp_command:
        return config
    if any(server.name == COMMAND_SERVER for server in config.servers):
        raise DefinitionError(
            f"{settings.mcp_config} has a server named {COMMAND_SERVER!r}, which is the name of mcp_command's server",
            hint="Rename it, or move the command into the file.",
        )
    command_server = Server(
        COMMAND_SERVER, StdioTransport(settings.mcp_command, settings.mcp_args), settings.mcp_trusted
    )
    return McpConfig((*config.servers, command_server), config.faults)


def bus_of(settings: SourcesConfig) -> Bus:
    return Bus(
        settings.nats,
        tenant=settings.nats_tenant,
        key=_bus_key(settings.nats_key_file),
        credentials=settings.nats_credentials,
        inbox=settings.nats_inbox,
    )


def _mcp(servers: McpConfig, settings: SourcesConfig) -> Source:
    options = ConnectionOptions(refresh=settings.mcp_tool_refresh_seconds)
    if not settings.mcp_pins:
        return McpServers(servers, options=options)
    pins_file = PinsFile(Path(settings.mcp_pins))
    return PinnedServers(McpServers(servers, pins=pins_file.read(), options=options), pins_file)


def _bus_key(path: str) -> bytes | None:
    if not path:
        return os.environ.get(KEY_VARIABLE, "").encode() or None
    try:
        return Path(path).read_bytes().strip()
    except OSError as problem:
        raise DefinitionError(
            f"cannot read sources.nats_key_file {path}: {problem.strerror}",
            hint="Create one with: openssl rand -hex 32",
        ) from problem
