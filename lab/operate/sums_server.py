"""The MCP server that is added during the day: it adds numbers, on stdio."""

from __future__ import annotations

from mcp.server.mcpserver import MCPServer

server = MCPServer("sums")


@server.tool()
def add(a: int, b: int) -> str:
    """The sum of two numbers."""
    return f"sum {a + b}"


if __name__ == "__main__":
    server.run("stdio")
