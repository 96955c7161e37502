"""Reads tools from a JSON file: a list in OpenAI's form or of bare functions, or an object with it under `tools`."""

from __future__ import annotations

from argparse import ArgumentTypeError
from pathlib import Path
from typing import cast

from ferrule.core.json_text import loads
from ferrule.core.tool import ToolDefinition
from ferrule.errors import DefinitionError, SchemaError
from ferrule.schema.admission import admit

_SHAPES = (
    'Write a list of {"type": "function", "function": {...}} or of {"name", "description", "parameters"}, '
    'or {"tools": [...]}.'
)
_NO_PARAMETERS: dict[str, object] = {"type": "object", "properties": {}}


def read_tools(path: str) -> tuple[ToolDefinition, ...]:
    """Read the tools in a file. A file that cannot be opened is wrong usage; invalid content is a Ferrule error."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except OSError as refusal:
        raise ArgumentTypeError(f"cannot read {path!r}: {refusal.strerror}") from refusal
    except UnicodeDecodeError as refusal:
        raise DefinitionError(f"{path}: not UTF-8 text ({refusal.reason} at byte {refusal.start})") from refusal
    try:
        return tools_of(loads(text))
    except RecursionError as refusal:
        raise DefinitionError(f"{path}: nested too deeply", hint=_SHAPES) from refusal
    except ValueError as refusal:
        raise DefinitionError(f"{path}: not JSON ({refusal})", hint=_SHAPES) from refusal


def tools_of(value: object) -> tuple[ToolDefinition, ...]:
    """The tools in a JSON value. Every schema is validated and names must be unique."""
    entries = cast("dict[str, object]", value).get("tools") if isinstance(value, dict) else value
    if not isinstance(entries, list):
        raise DefinitionError("there is no list of tools", hint=_SHAPES)
    tools: dict[str, ToolDefinition] = {}
    for number, entry in enumerate(cast("list[object]", entries), start=1):
        tool = _tool(entry, f"tool {number}")
        if tool.name in tools:
            raise DefinitionError(f"two tools are named {tool.name!r}", hint="Rename one of them.")
        tools[tool.name] = tool
    return tuple(tools.values())


def _tool(entry: object, where: str) -> ToolDefinition:
    function = _object(entry, where)
    if "function" in function:
        function = _object(function["function"], where)
    elif function.get("type", "function") != "function":
        raise DefinitionError(f"{where} is of type {function['type']!r}, not a function", hint=_SHAPES)
    name, description = function.get("name"), function.get("description") or ""
    if not isinstance(name, str) or not isinstance(description, str):
        raise DefinitionError(f"{where} needs a name, and a description that is a string", hint=_SHAPES)
    try:
        parameters = admit(function.get("parameters") or _NO_PARAMETERS)
    except SchemaError as refusal:
        raise SchemaError(f"{name}: {refusal.message}", code=refusal.code, hint=refusal.hint) from refusal
    return ToolDefinition(name, description, parameters)


def _object(value: object, where: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise DefinitionError(f"{where} is not an object", hint=_SHAPES)
    return cast("dict[str, object]", value)
