"""Sample tools: two harmless tools for the doctor's probes, and the request bodies around them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ferrule.core.tool import ToolDefinition
from ferrule.dialects.openai_chat.tool_choice import tool_body

Message = Mapping[str, str]
"""A chat message as JSON."""
MAX_TOKENS = 96
"""Small, so that an examination takes only a minute or two on a CPU."""


def closed_object(properties: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """Make an object schema with only these properties, all required unless `more` says otherwise."""
    shape = {"type": "object", "properties": dict(properties), "required": list(properties)}
    return {**shape, "additionalProperties": False, **more}


def tool(name: str, description: str, parameters: Mapping[str, Any], *, strict: bool = False) -> dict[str, Any]:
    return tool_body(ToolDefinition(name, description, dict(parameters)), strict=strict)


NOTE_TOOL = ToolDefinition("send_note", "Sends a short note.", closed_object({"text": {"type": "string"}}))
NOTE = tool_body(NOTE_TOOL, strict=False)
CITY = tool("find_city", "Finds a city on the map.", closed_object({"city": {"type": "string"}}))


def named_choice(name: str) -> dict[str, Any]:
    """The `tool_choice` of one tool."""
    return {"type": "function", "function": {"name": name}}


def user_message(text: str) -> list[Message]:
    return [{"role": "user", "content": text}]


HELLO = user_message("Say hello in one word.")


def request_body(messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] = (), **more: Any) -> dict[str, Any]:
    """Make a request body without model and seed, at a temperature at which a model varies."""
    tools_field = {"tools": list(tools)} if tools else {}
    head = {"messages": list(messages), "max_tokens": MAX_TOKENS, "temperature": 1}
    return {**head, **tools_field, **more}
