"""An MCP server over stdio with forty tools of an office: `python -m lab.clients.office_server NOUN`."""

import sys

import anyio
from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from lab.clients.many_functions import RESULT, functions_about

READS = types.ToolAnnotations(read_only_hint=True)


async def serve(noun: str) -> None:
    tools = [
        types.Tool(name=one["name"], description=one["description"], input_schema=one["parameters"], annotations=READS)
        for one in functions_about(noun, 40)
    ]

    async def list_tools(*_: object) -> types.ListToolsResult:
        return types.ListToolsResult(tools=tools)

    async def call_tool(*_: object) -> types.CallToolResult:
        return types.CallToolResult(content=[types.TextContent(type="text", text=RESULT)])

    server = Server(noun, on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(serve, sys.argv[1])
