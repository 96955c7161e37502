"""Tool admission: checks that the schemas of tools and answers are safe to compile, once per schema."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ferrule.core.json_text import dumps
from ferrule.core.tool import ToolDefinition
from ferrule.errors import SchemaError
from ferrule.schema.admission_cache import admit_text


def admit_tools(tools: Sequence[ToolDefinition]) -> tuple[ToolDefinition, ...]:
    """Return the tools with admitted schemas; `SchemaError` names the tool whose schema is refused."""
    return tuple(_admit_tool(tool) for tool in tools)


def admit_schema(schema: dict[str, Any] | None) -> dict[str, Any] | None:
    return None if schema is None else admit_text(dumps(schema))


def _admit_tool(tool: ToolDefinition) -> ToolDefinition:
    try:
        return replace(tool, parameters=admit_text(dumps(tool.parameters)))
    except SchemaError as refusal:
        message = f"the schema of tool {tool.name!r} is refused: {refusal.message}"
        raise SchemaError(message, code=refusal.code, hint=refusal.hint) from refusal
