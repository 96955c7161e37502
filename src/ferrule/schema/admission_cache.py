"""A cache of admitted schemas by JSON text: every request of a conversation sends the same schemas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from ferrule.core.byte_cache import ENTRY_BYTES, byte_cached, text_bytes
from ferrule.core.json_text import dumps, loads
from ferrule.core.tool import ToolDefinition
from ferrule.core.tool_cache import ToolCache
from ferrule.errors import SchemaError
from ferrule.schema.admission import admit


# Measured: what `admit` returns takes four to ten times the text.
@byte_cached(text_bytes(10))
def admit_text(text: str) -> dict[str, Any]:
    """Admit the schema of a JSON text, like `admit`. The result is shared by all callers: do not modify it."""
    return cast("dict[str, Any]", admit(loads(text)))


def admit_schema(schema: dict[str, Any] | None) -> dict[str, Any] | None:
    return None if schema is None else admit_text(dumps(schema))


# The parameters take about ten times their text, and others may have dropped them.
_ADMITTED: ToolCache[ToolDefinition] = ToolCache(
    lambda parameters, tool: ENTRY_BYTES + 10 * len(dumps(parameters)) + 4 * len(tool.description)
)
"""Equal tools of many requests become one object, so that what is known of it, such as its fingerprint, is kept."""


def admit_tool(tool: ToolDefinition) -> ToolDefinition:
    """Return the tool with admitted parameters. A tool that was admitted before is returned as it is."""
    if tool.admitted_parameters is tool.parameters:
        return tool
    try:
        text = dumps(tool.parameters)
    except (ValueError, TypeError, RecursionError):
        # Not JSON, such as an infinite number. `admit` says what is wrong.
        admit(tool.parameters)
        raise
    parameters = admit_text(text)
    admitted = replace(tool, parameters=parameters, admitted_parameters=parameters)
    binding = (tool.bound_capability, tool.bound_version, tool.side_effects)
    return _ADMITTED.get(admitted, lambda: admitted, (tool.description, *binding, tool.is_custom, tool.input_grammar))


def admit_tools(tools: Sequence[ToolDefinition]) -> tuple[ToolDefinition, ...]:
    """Return the tools with admitted parameters; `SchemaError` names the tool whose schema is refused."""
    return tuple(map(_admit_named, tools))


def _admit_named(tool: ToolDefinition) -> ToolDefinition:
    try:
        return admit_tool(tool)
    except SchemaError as refusal:
        message = f"the schema of tool {tool.name!r} is refused: {refusal.message}"
        raise SchemaError(message, code=refusal.code, hint=refusal.hint) from refusal
