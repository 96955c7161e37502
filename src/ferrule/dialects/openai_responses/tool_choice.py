"""Encode and decode tool choice and tools for the Responses API, which is flat where the chat API nests.

| choice | encoded as |
|---|---|
| auto | left out |
| none, required | that word |
| one tool | `{"type": "function", "name"}` |
| one tool in a namespace | the same with `namespace`, which may be left out where the name is clear without it |
| a custom tool, the caller's tool search | `{"type": "custom", "name"}`, `{"type": "tool_search"}` |
| any tool of a namespace | `{"type": "namespace", "name"}` |
| one tool of a server, or any of it | `{"type": "mcp", "server_label", "name"}`, without name for any |
| what a tool of OpenAI's service is bound to | `{"type": "web_search"}` |
| some tools, auto or required | `{"type": "allowed_tools", "mode", "tools": [...]}`, each entry one of those above |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ferrule.core.request import ChoiceMode, ToolChoice
from ferrule.core.tool import ToolDefinition
from ferrule.dialects.field import Field
from ferrule.dialects.openai_responses.client_tools import SERVICE_TOOLS, ClientTool, ClientToolKind, OfferedTools

_MODES = {mode.value: mode for mode in ChoiceMode}
_SUBSET_MODES = {"auto": ChoiceMode.AUTO, "required": ChoiceMode.REQUIRED}


def choice_body(choice: ToolChoice) -> str | dict[str, Any]:
    if choice.names is None or choice.mode is ChoiceMode.NONE:
        return choice.mode.value
    tools = [{"type": "function", "name": name} for name in choice.names]
    if len(tools) == 1 and choice.mode is ChoiceMode.REQUIRED:
        return tools[0]
    return {"type": "allowed_tools", "mode": choice.mode.value, "tools": tools}


def read_choice(field: Field, tools: OfferedTools) -> ToolChoice:
    """Read the choice. Only tools of the request can be chosen."""
    if not field.is_given:
        return ToolChoice.auto()
    if isinstance(field.value, str):
        return ToolChoice(field.one_of(_MODES))
    if field["type"].value == "allowed_tools":
        mode = field["mode"].or_else(lambda mode: mode.one_of(_SUBSET_MODES), ChoiceMode.AUTO)
        names: list[str] = []
        namespaces: set[str] = set()
        for entry in field["tools"].items():
            found = _read_names(entry, tools)
            if entry["type"].value == "namespace":
                # Once is enough, however often it is listed.
                found = () if entry["name"].string() in namespaces else found
                namespaces.add(entry["name"].string())
            names += found
        return ToolChoice.allowed(names, mode)
    return ToolChoice.allowed(_read_names(field, tools), ChoiceMode.REQUIRED)


def _read_names(field: Field, tools: OfferedTools) -> Sequence[str]:
    """Read the name of a tool, or the names of all tools of a server or a namespace."""
    kind = field["type"].value
    match kind:
        case "function" | "custom":
            return (_read_name(field, tools, ClientToolKind(kind)),)
        case "tool_search" if tools.search_name is not None:
            return (tools.search_name,)
        case "namespace":
            names = tools.names_in(field["name"].string())
            if not names:
                raise field["name"].refusal("is not a namespace of this request", "Name one that is in tools.")
            return names
        case "mcp":
            return _read_server_names(field, tools)
        case str() if names := tools.bound_names(kind):
            return names
        case _ if kind in tools.left_out.values() or kind in SERVICE_TOOLS:
            message = f"{kind!r} is not a tool of this gateway, so it was left out and cannot be chosen"
            raise field["type"].refusal(message, "Choose another tool, or send auto.")
        case _:
            hint = "Use function, custom, namespace, tool_search, mcp or allowed_tools."
            raise field["type"].refusal("unknown type of tool choice", hint)


def _read_name(field: Field, tools: OfferedTools, kind: ClientToolKind) -> str:
    tool = ClientTool(field["name"].string(), field["namespace"].or_else(Field.string, ""), kind)
    names = tools.candidates(tool)
    if len(names) > 1:
        groups = ", ".join(tools.client_tools[name].namespace for name in names)
        raise field["name"].refusal("is ambiguous", f"Send namespace beside it, one of: {groups}.")
    if not names and tool.name in tools.definitions:
        raise field["type"].refusal(f"{tool.name!r} is not a {kind} tool", "Send the type that it has in tools.")
    # An unknown name is refused with the list of the tools that can be called.
    return names[0] if names else tool.name


def _read_server_names(field: Field, tools: OfferedTools) -> tuple[str, ...]:
    label = field["server_label"].string()
    server = tools.servers.get(label)
    if server is None:
        raise field["server_label"].refusal(f"{label[:60]!r} is not declared in tools", "Declare it there.")
    if not field["name"].is_given:
        return server.names
    name = server.model_name(field["name"].string())
    if name is None:
        allowed = ", ".join(tool.client_name for tool in server.tools) or "nothing"
        raise field["name"].refusal("is not an allowed tool of this server", f"Allowed: {allowed}.")
    return (name,)


def tool_body(tool: ToolDefinition, *, strict: bool) -> dict[str, Any]:
    description = {"description": tool.description} if tool.description else {}
    return {"type": "function", "name": tool.name, **description, "parameters": tool.parameters, "strict": strict}
