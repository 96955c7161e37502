"""The client that the MCP conformance suite runs: our own source lists its tools and calls each of them once.

The suite passes the URL as the last argument; if it expects particular calls, it names them in the environment.
"""

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from typing import Any, cast

from ferrule.core.context import CallContext
from ferrule.core.tool import ToolDefinition
from ferrule.sources.mcp.config import HttpTransport, Server
from ferrule.sources.mcp.elicitation import ElicitAnswer, Elicitation
from ferrule.sources.mcp.servers import McpServers

_NAME = "suite"
# The suite gives a client thirty seconds. There is only one server, so it is worth waiting for.
_PATIENCE = 25.0


async def _accept(elicitation: Elicitation) -> ElicitAnswer:
    """Accept every form unchanged: the suite checks its defaults."""
    return ElicitAnswer("accept")


def calls_for(tools: tuple[ToolDefinition, ...], context: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The calls that the suite expects, or one call of each tool with arguments of the right types."""
    calls = [(f"{_NAME}_{call['name']}", call["arguments"]) for call in context.get("toolCalls", ())]
    return calls or [(tool.name, _arguments(tool, tools[0])) for tool in tools]


def _arguments(tool: ToolDefinition, first: ToolDefinition) -> dict[str, Any]:
    # The one tool with an object parameter expects the schema of the first tool, as it was read.
    values: dict[str, Any] = {"integer": 1, "number": 1.5, "boolean": True, "array": [], "object": first.parameters}
    properties = cast("Mapping[str, dict[str, Any]]", tool.properties)
    return {name: values.get(schema.get("type", ""), "text") for name, schema in properties.items()}


async def _run(url: str) -> None:
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    async with McpServers([Server(_NAME, HttpTransport(url))], elicit=_accept, settle_seconds=_PATIENCE) as source:
        for name, arguments in calls_for(await source.tools(), context):
            outcome = await source.call(name, arguments, CallContext(call_id="conformance"))
            print(f"{name}: {outcome!r:.300}")
        print(*source.notices, sep="\n")


if __name__ == "__main__":
    asyncio.run(_run(sys.argv[-1]))
