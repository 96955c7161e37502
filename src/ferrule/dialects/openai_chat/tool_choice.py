"""Encode and decode tool choice and tools for OpenAI's chat API.

| choice | encoded as |
|---|---|
| auto | left out |
| none, required | that word |
| one tool | `{"type": "function", "function": {"name"}}` |
| some tools, auto or required | `{"type": "allowed_tools", "allowed_tools": {"mode", "tools"}}` |
"""

from __future__ import annotations

from typing import Any

from ferrule.core.request import ChoiceMode, ToolChoice
from ferrule.core.tool import ToolDefinition
from ferrule.dialects.field import Field
from ferrule.dialects.tool_definitions import define_tool

_MODES = {mode.value: mode for mode in ChoiceMode}
_SUBSET_MODES = {"auto": ChoiceMode.AUTO, "required": ChoiceMode.REQUIRED}


def choice_body(choice: ToolChoice) -> str | dict[str, Any]:
    if choice.names is None or choice.mode is ChoiceMode.NONE:
        return choice.mode.value
    tools = [{"type": "function", "function": {"name": name}} for name in choice.names]
    if len(tools) == 1 and choice.mode is ChoiceMode.REQUIRED:
        return tools[0]
    return {"type": "allowed_tools", "allowed_tools": {"mode": choice.mode.value, "tools": tools}}


def read_choice(field: Field) -> ToolChoice:
    if not field.is_given:
        return ToolChoice.auto()
    if isinstance(field.value, str):
        return ToolChoice(field.one_of(_MODES))
    match field["type"].value:
        case "function":
            return ToolChoice.one(field["function"]["name"].string())
        case "allowed_tools":
            allowed = field["allowed_tools"]
            names = [entry["function"]["name"].string() for entry in allowed["tools"].items()]
            return ToolChoice.allowed(
                names, allowed["mode"].or_else(lambda mode: mode.one_of(_SUBSET_MODES), _MODES["auto"])
            )
        case _:
            raise field["type"].refusal("unknown type of tool choice", "Use function or allowed_tools.")


def read_function_call(field: Field) -> ToolChoice:
    """Read the older field, which belongs to `functions`."""
    if not field.is_given:
        return ToolChoice.auto()
    if isinstance(field.value, str):
        return ToolChoice(field.one_of({"none": ChoiceMode.NONE, "auto": ChoiceMode.AUTO}))
    return ToolChoice.one(field["name"].string())


def tool_body(tool: ToolDefinition, *, strict: bool) -> dict[str, Any]:
    description = {"description": tool.description} if tool.description else {}
    function = {"name": tool.name, **description, "parameters": tool.parameters}
    return {"type": "function", "function": {**function, **({"strict": True} if strict else {})}}


def read_tool(field: Field) -> ToolDefinition:
    if field["type"].or_else(Field.string, "function") != "function":
        raise field["type"].refusal(
            f"{field['type'].value!r} is not a supported tool type",
            "Describe it as a function; hosted and custom tools are not supported.",
        )
    return read_function(field["function"])


def read_function(field: Field) -> ToolDefinition:
    return define_tool(field["name"], field["description"], field["parameters"])
