"""The sources that a gateway's configuration names, made here because only a command may start what it names."""

from __future__ import annotations

from collections.abc import Sequence

from ferrule.cli.functions import AnyTool, read_functions
from ferrule.server.config import Config
from ferrule.sources.functions import Functions
from ferrule.sources.mcp import McpServers
from ferrule.sources.mcp_config import Process, Server, read_config
from ferrule.sources.source import Source


def sources_of(config: Config, functions: Sequence[AnyTool] = ()) -> list[Source]:
    named = config.sources
    held = [*functions, *(one for text in named.functions for one in read_functions(text))]
    sources: list[Source] = [Functions(held)] if held else []
    if named.mcp_config:
        sources.append(McpServers(read_config(named.mcp_config)))
    if named.mcp_command:
        reach = Process(named.mcp_command, named.mcp_args)
        sources.append(McpServers([Server("mcp", reach, named.mcp_trusted)], id="mcp-command"))
    return sources
