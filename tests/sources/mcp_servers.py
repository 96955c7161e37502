"""Helpers: configurations of the plain server, and calls of its tools."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from ferrule.core.context import CallContext
from ferrule.core.outcome import Outcome
from ferrule.sources.mcp.config import Server, StdioTransport, Timeouts
from ferrule.sources.mcp.server_connection import ConnectionOptions
from ferrule.sources.mcp.servers import McpServers

PLAIN = Path(__file__).parent / "mcp_plain_server.py"
SWIFT = ConnectionOptions(refresh=30, first_pause=0.01, longest_pause=0.05, max_bytes=64 * 1024)


def tool(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object"}, **more}


def plain(
    name: str,
    *pages: list[Any],
    trusted: bool = False,
    timeouts: Timeouts | None = None,
    results: dict[str, Any] | None = None,
) -> Server:
    reach = StdioTransport(sys.executable, (str(PLAIN), json.dumps(pages), json.dumps(results or {})))
    return Server(name, reach, trusted, timeouts or Timeouts())


async def call_tool(source: McpServers, name: str, context: CallContext | None = None, **arguments: Any) -> Outcome:
    return await source.call(name, arguments, context or CallContext(call_id="c1"))
