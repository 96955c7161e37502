"""Encode and decode tool choice and tools for Anthropic.

| choice | encoded as |
|---|---|
| auto | left out, or `{"type": "auto"}` where calls must not be parallel |
| none | `{"type": "none"}` |
| required | `{"type": "any"}` |
| one tool | `{"type": "tool", "name"}`, and only that tool is offered |
| some tools, auto or required | auto or any, and only those tools are offered: the API has no field for a subset |

One call at a time is `disable_parallel_tool_use` inside the choice; `none` does not need it.
"""

from __future__ import annotations

from typing import Any

from ferrule.core.request import ChoiceMode, ToolCallRequest, ToolChoice
from ferrule.core.tool import ToolDefinition
from ferrule.dialects.field import Field

_TYPES = {ChoiceMode.AUTO: "auto", ChoiceMode.NONE: "none", ChoiceMode.REQUIRED: "any"}
_MODES = {"auto": ChoiceMode.AUTO, "none": ChoiceMode.NONE, "any": ChoiceMode.REQUIRED, "tool": ChoiceMode.REQUIRED}


def choice_body(request: ToolCallRequest) -> dict[str, Any] | None:
    """Return the choice of a request from `narrow_tools`; None if the field can be left out."""
    choice = request.tool_choice
    if not request.tools or (choice == ToolChoice.auto() and request.parallel_tool_calls):
        return None
    if choice.mode is ChoiceMode.NONE:
        return {"type": "none"}
    body = {"type": "tool", "name": choice.names[0]} if choice.names else {"type": _TYPES[choice.mode]}
    return body if request.parallel_tool_calls else {**body, "disable_parallel_tool_use": True}


def read_choice(field: Field) -> tuple[ToolChoice, bool]:
    """Read the choice, and whether parallel calls are allowed."""
    if not field.is_given:
        return ToolChoice.auto(), True
    mode = field["type"].one_of(_MODES)
    names = (field["name"].string(),) if field["type"].value == "tool" else None
    return ToolChoice(mode, names), not field["disable_parallel_tool_use"].or_else(Field.boolean, False)


def tool_body(tool: ToolDefinition, *, strict: bool) -> dict[str, Any]:
    description = {"description": tool.description} if tool.description else {}
    return {"name": tool.name, **description, "input_schema": tool.parameters, **({"strict": True} if strict else {})}
