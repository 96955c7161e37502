"""Finds the MCP servers among a gateway's sources, whatever they are wrapped in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ferrule.sources.adapters import SourceAdapter
from ferrule.sources.combined_sources import CombinedSources
from ferrule.sources.mcp.servers import McpServers
from ferrule.sources.source import Source


def mcp_servers(sources: Iterable[Source]) -> Iterator[McpServers]:
    for source in sources:
        match source:
            case McpServers():
                yield source
            case SourceAdapter():
                yield from mcp_servers([source.inner])
            case CombinedSources():
                yield from mcp_servers(source.sources)
            case _:
                pass
