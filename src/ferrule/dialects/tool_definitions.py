"""Read tool definitions from the fields of a request body."""

from __future__ import annotations

from collections.abc import Callable

from ferrule.core.request import ChoicePolicy
from ferrule.core.tool import ToolDefinition
from ferrule.dialects.field import Field


def define_tool(name: Field, description: Field, parameters: Field) -> ToolDefinition:
    """Return a tool definition. A tool without parameters takes none."""
    text, description_text = name.string(), description.or_else(Field.string, "")
    schema = parameters.optional(Field.object)
    return name.build(
        lambda: (
            ToolDefinition(text, description_text) if schema is None else ToolDefinition(text, description_text, schema)
        )
    )


def read_tools(field: Field, read: Callable[[Field], ToolDefinition]) -> tuple[ToolDefinition, ...]:
    """Read a list of tools. Duplicate names are refused, because a call of that name would be ambiguous."""
    tools: dict[str, ToolDefinition] = {}
    for entry in field.items():
        tool = read(entry)
        if tool.name in tools:
            raise entry.refusal(f"duplicate tool name {tool.name!r}", "Give each tool a unique name.")
        tools[tool.name] = tool
    return tuple(tools.values())


_POLICIES = {policy.value: policy for policy in ChoicePolicy}


def read_policy(root: Field) -> ChoicePolicy:
    return root["tool_choice_policy"].or_else(lambda field: field.one_of(_POLICIES), ChoicePolicy.AUTO)
