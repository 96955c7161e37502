"""Tool choice and tools in the spelling of the Responses API, which is flat where chat nests.

| choice | said as |
|---|---|
| auto | left out |
| none, required | that word |
| one tool | `{"type": "function", "name"}` |
| some tools, auto or required | `{"type": "allowed_tools", "mode", "tools": [{"type": "function", "name"}]}` |
"""

from __future__ import annotations

from typing import Any

from ferrule.core.choice import ChoiceMode, ToolChoice
from ferrule.core.tool import ToolDefinition
from ferrule.dialects.definition import defined
from ferrule.dialects.field import Field

_MODES = {mode.value: mode for mode in ChoiceMode}
_SUBSET_MODES = {"auto": ChoiceMode.AUTO, "required": ChoiceMode.REQUIRED}
_FUNCTIONS_ONLY = "Describe it as a function; hosted, custom and MCP tools are not taken."


def choice_body(choice: ToolChoice) -> str | dict[str, Any]:
    if choice.names is None or choice.mode is ChoiceMode.NONE:
        return choice.mode.value
    named = [{"type": "function", "name": name} for name in choice.names]
    if len(named) == 1 and choice.mode is ChoiceMode.REQUIRED:
        return named[0]
    return {"type": "allowed_tools", "mode": choice.mode.value, "tools": named}


def read_choice(field: Field) -> ToolChoice:
    if not field.is_given:
        return ToolChoice.auto()
    if isinstance(field.value, str):
        return ToolChoice(field.one_of(_MODES))
    match field["type"].value:
        case "function":
            return ToolChoice.one(field["name"].string())
        case "allowed_tools":
            mode = field["mode"].or_else(lambda mode: mode.one_of(_SUBSET_MODES), ChoiceMode.AUTO)
            return ToolChoice.allowed([_allowed_name(entry) for entry in field["tools"].items()], mode)
        case _:
            raise field["type"].refusal("is not a choice that is known here", "Use function or allowed_tools.")


def _allowed_name(field: Field) -> str:
    _must_be_function(field)
    return field["name"].string()


def tool_body(tool: ToolDefinition, *, strict: bool) -> dict[str, Any]:
    described = {"description": tool.description} if tool.description else {}
    return {"type": "function", "name": tool.name, **described, "parameters": tool.parameters, "strict": strict}


def read_tool(field: Field) -> ToolDefinition:
    _must_be_function(field)
    return defined(field["name"], field["description"], field["parameters"])


def _must_be_function(field: Field) -> None:
    if field["type"].value != "function":
        raise field["type"].refusal(f"{field['type'].value!r} is not a tool that can be called here", _FUNCTIONS_ONLY)
