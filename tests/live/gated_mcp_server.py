"""A server of the MCP SDK that a test leads by files: `gated_mcp_server.py NAME FOLDER stdio`, or `... http PORT`.

It notes every request for the list and every call in `FOLDER/NAME.jsonl`. `step` returns when `FOLDER/open-N` exists.
`grow` and `shrink` change the list, and tell the clients of it or not.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp.types import ToolAnnotations

NAME, FOLDER = sys.argv[1], Path(sys.argv[2])
READS = ToolAnnotations(read_only_hint=True)
server = MCPServer(NAME)


def note(tool: str, arguments: dict[str, Any]) -> None:
    with (FOLDER / f"{NAME}.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps({"tool": tool, "arguments": arguments}) + "\n")


@server.tool(annotations=READS)
def look(place: str) -> str:
    """Looks at a place."""
    note("look", {"place": place})
    return f"{NAME} sees {place}"


@server.tool(annotations=READS)
async def step(number: int) -> str:
    """Takes as long as the test wants."""
    note("step", {"number": number})
    while not (FOLDER / f"open-{number}").exists():
        await anyio.sleep(0.02)
    return f"{NAME} did {number}"


async def _tell(ctx: Context) -> None:
    await ctx.notify_tools_changed()
    if ctx.protocol_version and ctx.protocol_version < "2026":
        await ctx.session.send_tool_list_changed()


@server.tool(annotations=READS)
async def grow(tool: str, tells: bool, ctx: Context) -> str:
    """Adds a tool."""

    def added(text: str) -> str:
        note(tool, {"text": text})
        return f"{NAME} has {tool}: {text}"

    server.add_tool(added, name=tool, description="A new one.", annotations=READS)
    if tells:
        await _tell(ctx)
    return "grown"


@server.tool(annotations=READS)
async def shrink(tool: str, tells: bool, ctx: Context) -> str:
    """Removes a tool."""
    server.remove_tool(tool)
    if tells:
        await _tell(ctx)
    return "shrunk"


if __name__ == "__main__":
    if sys.argv[3] == "http":
        server.run("streamable-http", port=int(sys.argv[4]))
    else:
        server.run("stdio")
