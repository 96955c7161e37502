"""Readiness: tools and schemas as engines may use them: admitted, once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ferrule.core.json_text import dumps
from ferrule.core.tool import ToolDefinition
from ferrule.errors import SchemaError
from ferrule.schema.admission_cache import admitted_text


def admitted(tools: Sequence[ToolDefinition]) -> tuple[ToolDefinition, ...]:
    """The tools with schemas that are safe to compile; `SchemaError` names the tool whose schema is not."""
    return tuple(_tool(tool) for tool in tools)


def admitted_schema(schema: dict[str, Any] | None) -> dict[str, Any] | None:
    return None if schema is None else admitted_text(dumps(schema))


def _tool(tool: ToolDefinition) -> ToolDefinition:
    try:
        return replace(tool, parameters=admitted_text(dumps(tool.parameters)))
    except SchemaError as refusal:
        told = f"the schema of tool {tool.name!r} was not admitted: {refusal.message}"
        raise SchemaError(told, code=refusal.code, hint=refusal.hint) from refusal
