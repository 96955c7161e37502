"""Encode and decode tool choice and tools for the Responses API, which is flat where the chat API nests.

| choice | encoded as |
|---|---|
| auto | left out |
| none, required | that word |
| one tool | `{"type": "function", "name"}` |
| one tool of a server, or any of it | `{"type": "mcp", "server_label", "name"}`, without name for any |
| some tools, auto or required | `{"type": "allowed_tools", "mode", "tools": [...]}`, each entry one of the two above |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ferrule.core.request import ChoiceMode, ToolChoice
from ferrule.core.tool import ToolDefinition
from ferrule.dialects.field import Field
from ferrule.dialects.openai_responses.hosted_tools import HostedServer
from ferrule.dialects.tool_definitions import define_tool
from ferrule.errors import DefinitionError

_MODES = {mode.value: mode for mode in ChoiceMode}
_SUBSET_MODES = {"auto": ChoiceMode.AUTO, "required": ChoiceMode.REQUIRED}
_KNOWN_KINDS = "Describe it as a function, or name a server of the gateway as an mcp tool; others are not supported."


def choice_body(choice: ToolChoice) -> str | dict[str, Any]:
    if choice.names is None or choice.mode is ChoiceMode.NONE:
        return choice.mode.value
    tools = [{"type": "function", "name": name} for name in choice.names]
    if len(tools) == 1 and choice.mode is ChoiceMode.REQUIRED:
        return tools[0]
    return {"type": "allowed_tools", "mode": choice.mode.value, "tools": tools}


def read_choice(field: Field, servers: Sequence[HostedServer] = ()) -> ToolChoice:
    """Read the choice. `servers` are those that the request declares; no others may be chosen."""
    if not field.is_given:
        return ToolChoice.auto()
    if isinstance(field.value, str):
        return ToolChoice(field.one_of(_MODES))
    match field["type"].value:
        case "function" | "mcp":
            return ToolChoice.allowed(_read_names(field, servers), ChoiceMode.REQUIRED)
        case "allowed_tools":
            mode = field["mode"].or_else(lambda mode: mode.one_of(_SUBSET_MODES), ChoiceMode.AUTO)
            names = [name for entry in field["tools"].items() for name in _read_names(entry, servers)]
            return ToolChoice.allowed(names, mode)
        case _:
            raise field["type"].refusal("unknown type of tool choice", "Use function, mcp or allowed_tools.")


def _read_names(field: Field, servers: Sequence[HostedServer]) -> tuple[str, ...]:
    """Read the name of a function or of a server's tool, or the names of all tools of a server."""
    match field["type"].value:
        case "function":
            return (field["name"].string(),)
        case "mcp":
            label = field["server_label"].string()
            server = next((server for server in servers if server.label == label), None)
            if server is None:
                raise field["server_label"].refusal(f"{label[:60]!r} is not declared in tools", "Declare it there.")
            if not field["name"].is_given:
                return server.names
            name = server.model_name(field["name"].string())
            if name is None:
                allowed = ", ".join(tool.client_name for tool in server.tools) or "nothing"
                raise field["name"].refusal("is not an allowed tool of this server", f"Allowed: {allowed}.")
            return (name,)
        case _:
            raise unknown_tool(field)


def tool_body(tool: ToolDefinition, *, strict: bool) -> dict[str, Any]:
    description = {"description": tool.description} if tool.description else {}
    return {"type": "function", "name": tool.name, **description, "parameters": tool.parameters, "strict": strict}


def read_tool(field: Field) -> ToolDefinition:
    if field["type"].value != "function":
        raise unknown_tool(field)
    return define_tool(field["name"], field["description"], field["parameters"])


def unknown_tool(field: Field) -> DefinitionError:
    message = f"{field['type'].value!r:.60} is not a supported tool type"
    return field["type"].refusal(message, _KNOWN_KINDS)
