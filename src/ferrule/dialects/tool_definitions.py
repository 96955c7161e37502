"""Tools' definitions from the fields of a body, wherever an API keeps them."""

from __future__ import annotations

from collections.abc import Callable

from ferrule.core.tool import ToolDefinition
from ferrule.dialects.field import Field


def defined(name: Field, description: Field, parameters: Field) -> ToolDefinition:
    """A tool whose parameters are left out takes none."""
    text, told = name.string(), description.or_else(Field.string, "")
    schema = parameters.optional(Field.object)
    return name.made(lambda: ToolDefinition(text, told) if schema is None else ToolDefinition(text, told, schema))


def read_tools(field: Field, read: Callable[[Field], ToolDefinition]) -> tuple[ToolDefinition, ...]:
    """The tools of a list. Two of one name are refused: a call of that name would mean either."""
    tools: dict[str, ToolDefinition] = {}
    for entry in field.items():
        tool = read(entry)
        if tool.name in tools:
            raise entry.refusal(f"a tool named {tool.name!r} was given before", "Give each tool a name of its own.")
        tools[tool.name] = tool
    return tuple(tools.values())
