"""An MCP server on stdio with many tools, by the SDK: `python -m lab.mcp_many_tools_server NAME COUNT`."""

import sys

from mcp.server.mcpserver import MCPServer


def _answer(text: str, limit: int = 10) -> str:
    return f"{text}: {limit}"


def main() -> None:
    name, count = sys.argv[1], int(sys.argv[2])
    server = MCPServer(name)
    for number in range(count):
        server.add_tool(_answer, name=f"look_up_{number}", description=f"Looks up entries of kind {number} in {name}.")
    server.run("stdio")


if __name__ == "__main__":
    main()
