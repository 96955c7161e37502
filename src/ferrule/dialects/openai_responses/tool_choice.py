"""Tool choice and tools in the spelling of the Responses API, which is flat where chat nests.

| choice | said as |
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

from ferrule.core.choice import ChoiceMode, ToolChoice
from ferrule.core.tool import ToolDefinition
from ferrule.dialects.field import Field
from ferrule.dialects.openai_responses.hosted_tools import HostedServer
from ferrule.dialects.tool_definitions import defined
from ferrule.errors import DefinitionError

_MODES = {mode.value: mode for mode in ChoiceMode}
_SUBSET_MODES = {"auto": ChoiceMode.AUTO, "required": ChoiceMode.REQUIRED}
_KNOWN_KINDS = "Describe it as a function, or name a server of the gateway as an mcp tool; others are not taken."


def choice_body(choice: ToolChoice) -> str | dict[str, Any]:
    if choice.names is None or choice.mode is ChoiceMode.NONE:
        return choice.mode.value
    named = [{"type": "function", "name": name} for name in choice.names]
    if len(named) == 1 and choice.mode is ChoiceMode.REQUIRED:
        return named[0]
    return {"type": "allowed_tools", "mode": choice.mode.value, "tools": named}


def read_choice(field: Field, servers: Sequence[HostedServer] = ()) -> ToolChoice:
    """`servers` are those that the request declares; no other may be chosen."""
    if not field.is_given:
        return ToolChoice.auto()
    if isinstance(field.value, str):
        return ToolChoice(field.one_of(_MODES))
    match field["type"].value:
        case "function" | "mcp":
            return ToolChoice.allowed(_chosen(field, servers), ChoiceMode.REQUIRED)
        case "allowed_tools":
            mode = field["mode"].or_else(lambda mode: mode.one_of(_SUBSET_MODES), ChoiceMode.AUTO)
            names = [name for entry in field["tools"].items() for name in _chosen(entry, servers)]
            return ToolChoice.allowed(names, mode)
        case _:
            raise field["type"].refusal("is not a choice that is known here", "Use function, mcp or allowed_tools.")


def _chosen(field: Field, servers: Sequence[HostedServer]) -> tuple[str, ...]:
    """The names of a function, of a server's tool, or of all of a server's tools."""
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
            name = server.named(field["name"].string())
            if name is None:
                allowed = ", ".join(tool.told_name for tool in server.tools) or "nothing"
                raise field["name"].refusal("is not a tool that is allowed of this server", f"Allowed: {allowed}.")
            return (name,)
        case _:
            raise unknown_tool(field)


def tool_body(tool: ToolDefinition, *, strict: bool) -> dict[str, Any]:
    described = {"description": tool.description} if tool.description else {}
    return {"type": "function", "name": tool.name, **described, "parameters": tool.parameters, "strict": strict}


def read_tool(field: Field) -> ToolDefinition:
    if field["type"].value != "function":
        raise unknown_tool(field)
    return defined(field["name"], field["description"], field["parameters"])


def unknown_tool(field: Field) -> DefinitionError:
    told = f"{field['type'].value!r:.60} is not a tool that can be called here"
    return field["type"].refusal(told, _KNOWN_KINDS)
