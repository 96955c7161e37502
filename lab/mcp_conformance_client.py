"""The client that the MCP conformance suite runs: our own source, asked for its tools, each of them called once.

The suite gives the address as the last argument, and where it wants particular calls, names them in the environment.
"""

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from typing import Any, cast

from ferrule.core.context import CallContext
from ferrule.core.tool import ToolDefinition
from ferrule.sources.mcp.config import Endpoint, Server
from ferrule.sources.mcp.elicitation import ElicitAnswer, Elicitation
from ferrule.sources.mcp.servers import McpServers

_NAME = "suite"
# The suite gives a client thirty seconds; there is one server, and without it there is nothing to do.
_PATIENCE = 25.0


async def _accepted(asked: Elicitation) -> ElicitAnswer:
    """Agrees to every form as it stands: its defaults are what the suite looks for."""
    return ElicitAnswer("accept")


def calls_for(tools: tuple[ToolDefinition, ...], wanted: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The calls that the suite wants, or one of each tool with arguments of the right types."""
    given = [(f"{_NAME}_{call['name']}", call["arguments"]) for call in wanted.get("toolCalls", ())]
    return given or [(tool.name, _arguments(tool, tools[0])) for tool in tools]


def _arguments(tool: ToolDefinition, first: ToolDefinition) -> dict[str, Any]:
    # The one tool that takes an object wants the schema of the first given back as it was read.
    values: dict[str, Any] = {"integer": 1, "number": 1.5, "boolean": True, "array": [], "object": first.parameters}
    properties = cast("Mapping[str, dict[str, Any]]", tool.properties)
    return {name: values.get(schema.get("type", ""), "text") for name, schema in properties.items()}


async def _run(url: str) -> None:
    wanted = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    async with McpServers([Server(_NAME, Endpoint(url))], elicit=_accepted, settle_seconds=_PATIENCE) as source:
        for name, arguments in calls_for(await source.tools(), wanted):
            outcome = await source.call(name, arguments, CallContext(call_id="conformance"))
            print(f"{name}: {outcome!r:.300}")
        print(*source.notices, sep="\n")


if __name__ == "__main__":
    asyncio.run(_run(sys.argv[-1]))
