"""The sources that a gateway's configuration names, made here because only a command may start what it names."""

from __future__ import annotations

import os
from argparse import ArgumentTypeError
from collections.abc import Sequence
from pathlib import Path

from ferrule.cli.bus_option import KEY_VARIABLE
from ferrule.cli.function_option import AnyTool, read_functions
from ferrule.cli.serve_pins import Pinned, PinsFile
from ferrule.errors import DefinitionError
from ferrule.server.config.config import Config, SourcesConfig
from ferrule.sources.bus.bus import Bus
from ferrule.sources.functions import Functions
from ferrule.sources.mcp.config import McpConfig, Process, Server, read_config
from ferrule.sources.mcp.server_connection import Habits
from ferrule.sources.mcp.servers import McpServers
from ferrule.sources.source import Source

COMMAND_SERVER = "mcp"
"""What the server of `mcp_command` is called."""


def sources_of(config: Config, functions: Sequence[AnyTool] = ()) -> list[Source]:
    """All that the configuration names, and `functions` beside those that it names. Nothing is connected to yet."""
    named = config.sources
    held = [*functions, *functions_of(named)]
    sources: list[Source] = [Functions(held)] if held else []
    servers = mcp_of(named)
    if servers.servers or servers.faults:
        sources.append(_mcp(servers, named))
    if named.nats:
        sources.append(bus_of(named))
    return sources


def functions_of(named: SourcesConfig) -> list[AnyTool]:
    try:
        return [one for place in named.functions for one in read_functions(place)]
    except ArgumentTypeError as problem:
        raise DefinitionError(
            f"sources.functions: {problem}", hint="Write my_module:NAME or my_tools.py:NAME, as seen from here."
        ) from problem


def mcp_of(named: SourcesConfig) -> McpConfig:
    """The servers of the mcp.json and of the command, as one list."""
    listed = read_config(named.mcp_config) if named.mcp_config else McpConfig()
    if not named.mcp_command:
        return listed
    if any(server.name == COMMAND_SERVER for server in listed.servers):
        raise DefinitionError(
            f"{named.mcp_config} has a server {COMMAND_SERVER!r}, and so is mcp_command's called",
            hint="Rename it, or move the command into the file.",
        )
    own = Server(COMMAND_SERVER, Process(named.mcp_command, named.mcp_args), named.mcp_trusted)
    return McpConfig((*listed.servers, own), listed.faults)


def bus_of(named: SourcesConfig) -> Bus:
    return Bus(
        named.nats,
        tenant=named.nats_tenant,
        key=_bus_key(named.nats_key_file),
        credentials=named.nats_credentials,
        inbox=named.nats_inbox,
    )


def _mcp(servers: McpConfig, named: SourcesConfig) -> Source:
    habits = Habits(refresh=named.mcp_tool_refresh_seconds)
    if not named.mcp_pins:
        return McpServers(servers, habits=habits)
    kept = PinsFile(Path(named.mcp_pins))
    return Pinned(McpServers(servers, pins=kept.read(), habits=habits), kept)


def _bus_key(path: str) -> bytes | None:
    if not path:
        return os.environ.get(KEY_VARIABLE, "").encode() or None
    try:
        return Path(path).read_bytes().strip()
    except OSError as problem:
        raise DefinitionError(
            f"sources.nats_key_file cannot be read: {problem.strerror}: {path}", hint="Make one: openssl rand -hex 32"
        ) from problem
