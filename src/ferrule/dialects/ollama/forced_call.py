"""A call that must be made, on an engine that ignores `tool_choice`: its `format` field makes the answer one call.

The answer is then the text `{"name": ..., "arguments": ...}`, and the tools are described in the system message,
because Ollama reads its own tools out of a text only where its template says so.
"""

from __future__ import annotations

from typing import Any, cast

from ferrule.core.choice import ChoiceMode
from ferrule.core.json_text import dumps
from ferrule.core.request import ToolCallRequest
from ferrule.core.tool import ToolDefinition

# What stands under these is data, even where it looks like a reference.
_DATA = ("const", "enum", "default", "examples")


def format_for(request: ToolCallRequest) -> dict[str, Any] | None:
    """The JSON Schema of one call of an allowed tool; None where the choice demands none."""
    if request.choice.mode is not ChoiceMode.REQUIRED:
        return None
    definitions: dict[str, Any] = {}
    tools = request.choice.offered(request.tools)
    branches = [_call_schema(tool, definitions) for tool in tools]
    schema = branches[0] if len(branches) == 1 else {"anyOf": branches}
    return {**schema, "$defs": definitions} if definitions else schema


def description(request: ToolCallRequest) -> str:
    """What the model must be told, since it sees neither the tools nor the schema."""
    tools = request.choice.offered(request.tools)
    listed = "\n".join(dumps(tool.as_function()["function"]) for tool in tools)
    return (
        'Answer with nothing but one JSON object, {"name": the name of a tool, "arguments": its arguments}, '
        f"that calls one of these tools:\n{listed}"
    )


def _call_schema(tool: ToolDefinition, definitions: dict[str, Any]) -> dict[str, Any]:
    parameters = tool.parameters
    if _has_refs(parameters):
        # References count from the root, so a schema that has some is moved to a place that they can name.
        place = f"tool_{len(definitions)}"
        definitions[place] = _moved(parameters, f"#/$defs/{place}")
        parameters = {"$ref": f"#/$defs/{place}"}
    # The name first: the model chooses before it fills in, and the reader knows the tool from the start.
    return {
        "type": "object",
        "properties": {"name": {"const": tool.name}, "arguments": parameters},
        "required": ["name", "arguments"],
        "additionalProperties": False,
    }


def _has_refs(schema: object) -> bool:
    return _moved(schema, "#moved") != schema


def _moved(value: object, root: str) -> Any:
    if isinstance(value, list):
        return [_moved(item, root) for item in cast("list[object]", value)]
    if not isinstance(value, dict):
        return value
    return {
        key: root + inner[1:]
        if key == "$ref" and isinstance(inner, str) and inner.startswith("#")
        else inner
        if key in _DATA
        else _moved(inner, root)
        for key, inner in cast("dict[str, object]", value).items()
    }
