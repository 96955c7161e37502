"""Tool choice and tools in Anthropic's spelling, both ways.

| choice | said as |
|---|---|
| auto | left out, or `{"type": "auto"}` where calls must not be parallel |
| none | `{"type": "none"}` |
| required | `{"type": "any"}` |
| one tool | `{"type": "tool", "name"}`, and only that tool is offered |
| some tools, auto or required | auto or any, and only those tools are offered: the API has no word for a subset |

One call at a time is `disable_parallel_tool_use` inside the choice; `none` has no room for it and no need.
"""

from __future__ import annotations

from typing import Any

from ferrule.core.choice import ChoiceMode, ToolChoice
from ferrule.core.request import ToolCallRequest
from ferrule.core.tool import ToolDefinition
from ferrule.dialects.field import Field
from ferrule.dialects.tool_definitions import defined

_TYPES = {ChoiceMode.AUTO: "auto", ChoiceMode.NONE: "none", ChoiceMode.REQUIRED: "any"}
_MODES = {"auto": ChoiceMode.AUTO, "none": ChoiceMode.NONE, "any": ChoiceMode.REQUIRED, "tool": ChoiceMode.REQUIRED}


def choice_body(narrow: ToolCallRequest) -> dict[str, Any] | None:
    """The choice of a request that is narrowed already; None where nothing needs to be said."""
    choice = narrow.tool_choice
    if not narrow.tools or (choice == ToolChoice.auto() and narrow.parallel_tool_calls):
        return None
    if choice.mode is ChoiceMode.NONE:
        return {"type": "none"}
    named = {"type": "tool", "name": choice.names[0]} if choice.names else {"type": _TYPES[choice.mode]}
    return named if narrow.parallel_tool_calls else {**named, "disable_parallel_tool_use": True}


def read_choice(field: Field) -> tuple[ToolChoice, bool]:
    """The choice, and whether calls may be parallel."""
    if not field.is_given:
        return ToolChoice.auto(), True
    mode = field["type"].one_of(_MODES)
    names = (field["name"].string(),) if field["type"].value == "tool" else None
    return ToolChoice(mode, names), not field["disable_parallel_tool_use"].or_else(Field.boolean, False)


def tool_body(tool: ToolDefinition, *, strict: bool) -> dict[str, Any]:
    described = {"description": tool.description} if tool.description else {}
    return {"name": tool.name, **described, "input_schema": tool.parameters, **({"strict": True} if strict else {})}


def read_tool(field: Field) -> ToolDefinition:
    if field["type"].or_else(Field.string, "custom") != "custom":
        raise field["type"].refusal(
            f"{field['type'].value!r} is not a tool that can be called here",
            "Describe it with name and input_schema; tools that Anthropic runs itself are not taken.",
        )
    return defined(field["name"], field["description"], field["input_schema"])
