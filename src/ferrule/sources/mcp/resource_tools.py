"""The tools with which a model lists and reads a server's resources and prompts, if the server's entry asks for them.

They stand among the tools that the server lists: they are named, pinned, allowed and denied as those are. They only
read, whatever the server is trusted with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ferrule.sources.mcp.config import Server
from ferrule.sources.mcp.tool_list import ListedTool


def _tool(name: str, description: str, properties: Mapping[str, Any], *required: str) -> ListedTool:
    schema = {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}
    return ListedTool(name, description, schema, hints={"readOnlyHint": True})


_CURSOR = {"type": "string", "description": "The next_cursor of the page before, for a further page."}
_ARGUMENTS = {"type": "object", "additionalProperties": {"type": "string"}}
LIST_RESOURCES = _tool(
    "list_resources",
    "List the resources of this server, and the templates of the URIs of others.",
    {"cursor": _CURSOR},
)
READ_RESOURCE = _tool(
    "read_resource",
    "Read a resource of this server.",
    {"uri": {"type": "string", "description": "Its URI, as listed or made from a template."}},
    "uri",
)
LIST_PROMPTS = _tool("list_prompts", "List the prompts of this server, with their arguments.", {"cursor": _CURSOR})
GET_PROMPT = _tool(
    "get_prompt",
    "Get the messages of a prompt of this server.",
    {"name": {"type": "string"}, "arguments": _ARGUMENTS},
    "name",
)
_ALL = (LIST_RESOURCES, READ_RESOURCE, LIST_PROMPTS, GET_PROMPT)


def is_resource_tool(tool: ListedTool) -> bool:
    """Whether a tool is one of these, and not one of the same name that a server lists."""
    return any(tool is one for one in _ALL)


def with_resource_tools(
    server: Server, listed: Sequence[ListedTool], *, has_resources: bool, has_prompts: bool
) -> tuple[list[ListedTool], list[str]]:
    """Return the tools of a server with those that its entry asks for, and messages about the others of these names."""
    added = (
        *((LIST_RESOURCES, READ_RESOURCE) if server.resources is not None and has_resources else ()),
        *((LIST_PROMPTS, GET_PROMPT) if server.prompts and has_prompts else ()),
    )
    names = {tool.name for tool in added}
    # Ours count: the operator asked for them, and a server may not put something else in their place.
    hidden = [tool.name for tool in listed if tool.name in names]
    messages = [
        f"its own tool {name!r} is not offered: resources or prompts in its entry add this name" for name in hidden
    ]
    return [*(tool for tool in listed if tool.name not in names), *added], messages
