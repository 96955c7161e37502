"""What the doctor offers: two harmless tools, and the body of a request around what is said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ferrule.core.tool import ToolDefinition
from ferrule.dialects.openai_chat.tool_choice import tool_body

Said = Mapping[str, str]
"""A message."""
MAX_TOKENS = 96
"""Small, so that an examination takes a minute or two on a CPU."""


def closed(properties: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """An object with these properties and no others, all of them required unless `more` says otherwise."""
    shape = {"type": "object", "properties": dict(properties), "required": list(properties)}
    return {**shape, "additionalProperties": False, **more}


def tool(name: str, description: str, parameters: Mapping[str, Any], *, strict: bool = False) -> dict[str, Any]:
    return tool_body(ToolDefinition(name, description, dict(parameters)), strict=strict)


NOTE = tool("send_note", "Sends a short note.", closed({"text": {"type": "string"}}))
CITY = tool("find_city", "Finds a city on the map.", closed({"city": {"type": "string"}}))


def named(name: str) -> dict[str, Any]:
    """The choice of one tool."""
    return {"type": "function", "function": {"name": name}}


def user(said: str) -> list[Said]:
    return [{"role": "user", "content": said}]


HELLO = user("Say hello in one word.")


def body_of(said: Sequence[Said], tools: Sequence[Mapping[str, Any]] = (), **more: Any) -> dict[str, Any]:
    """A request without model and seed, at a temperature where a model strays."""
    offered = {"tools": list(tools)} if tools else {}
    head = {"messages": list(said), "max_tokens": MAX_TOKENS, "temperature": 1}
    return {**head, **offered, **more}
