"""MCP servers as a source of tools."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ferrule.sources.mcp.elicitation import Elicit
    from ferrule.sources.mcp.pins import Pins
    from ferrule.sources.mcp.sampling import Sampler
    from ferrule.sources.mcp.servers import McpServers


def mcp(
    servers: str | PathLike[str] | Mapping[str, Any],
    *,
    pins: Pins | None = None,
    elicit: Elicit | None = None,
    sample: Sampler | None = None,
    settle_seconds: float = 5.0,
    credentials: str | PathLike[str] = "",
) -> McpServers:
    """Return the tools of MCP servers as one source: those of an mcp.json, or of a dict with the same content.

    A dict may also be the servers alone, by name. Servers are started and connected when the source is entered.
    `pins` are the definitions that you accepted earlier: a tool that changed since is not offered. `elicit` answers a
    server's requests for input; without it they are declined. `sample` answers requests for samples of servers whose
    entries have `sampling`; without it they are refused. `settle_seconds` is how long to wait for slow servers.
    `credentials` is the file with the tokens of `ferrule mcp login`, if it is not in its usual place.

    Example:
        async with mcp("mcp.json") as tools:
            print([tool.name for tool in await tools.tools()])

        mcp({"files": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "."]}})
    """
    from ferrule.sources.mcp.config import config_of, read_config
    from ferrule.sources.mcp.credentials import default_credentials
    from ferrule.sources.mcp.elicitation import decline
    from ferrule.sources.mcp.sampling import refuse
    from ferrule.sources.mcp.servers import McpServers

    if isinstance(servers, Mapping):
        is_document = "mcpServers" in servers or "servers" in servers
        config = config_of(dict(servers) if is_document else {"mcpServers": dict(servers)})
    else:
        config = read_config(fspath(servers))
    return McpServers(
        config,
        pins=pins,
        elicit=elicit or decline,
        sample=sample or refuse,
        settle_seconds=settle_seconds,
        credentials=default_credentials(fspath(credentials)),
    )
