"""Force a call on an engine that ignores `tool_choice`: its `format` field constrains the answer to one call.

The answer is then the text `{"name": ..., "arguments": ...}`. The tools are described in the system message, because
Ollama reads tool calls out of a text only if the model's template supports it.
"""

from __future__ import annotations

from typing import Any, cast

from ferrule.core.json_text import dumps
from ferrule.core.request import ChoiceMode, ToolCallRequest
from ferrule.core.tool import ToolDefinition

# Values of these keywords are data, even if they look like a reference.
_DATA = ("const", "enum", "default", "examples")


def format_for(request: ToolCallRequest) -> dict[str, Any] | None:
    """Return the JSON Schema of one call of an allowed tool; None if no call is required."""
    if request.choice.mode is not ChoiceMode.REQUIRED:
        return None
    definitions: dict[str, Any] = {}
    tools = request.choice.select_tools(request.tools)
    branches = [_call_schema(tool, definitions) for tool in tools]
    schema = branches[0] if len(branches) == 1 else {"anyOf": branches}
    return {**schema, "$defs": definitions} if definitions else schema


def description(request: ToolCallRequest) -> str:
    """Return the instructions for the model, which sees neither the tools nor the schema."""
    tools = request.choice.select_tools(request.tools)
    definitions = "\n".join(dumps(tool.as_function()["function"]) for tool in tools)
    return (
        'Answer with nothing but one JSON object, {"name": the name of a tool, "arguments": its arguments}, '
        f"that calls one of these tools:\n{definitions}"
    )


def _call_schema(tool: ToolDefinition, definitions: dict[str, Any]) -> dict[str, Any]:
    parameters = tool.parameters
    if _has_refs(parameters):
        # References start at the root, so a schema that has some is moved into `$defs`, where they can point to it.
        place = f"tool_{len(definitions)}"
        definitions[place] = _rebase_refs(parameters, f"#/$defs/{place}")
        parameters = {"$ref": f"#/$defs/{place}"}
    # The name comes first: the model chooses before it writes arguments, and the reader knows the tool early.
    return {
        "type": "object",
        "properties": {"name": {"const": tool.name}, "arguments": parameters},
        "required": ["name", "arguments"],
        "additionalProperties": False,
    }


def _has_refs(schema: object) -> bool:
    return _rebase_refs(schema, "#moved") != schema


def _rebase_refs(value: object, root: str) -> Any:
    if isinstance(value, list):
        return [_rebase_refs(item, root) for item in cast("list[object]", value)]
    if not isinstance(value, dict):
        return value
    return {
        key: root + inner[1:]
        if key == "$ref" and isinstance(inner, str) and inner.startswith("#")
        else inner
        if key in _DATA
        else _rebase_refs(inner, root)
        for key, inner in cast("dict[str, object]", value).items()
    }
