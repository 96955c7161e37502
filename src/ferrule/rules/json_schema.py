"""Emit a JSON Schema for the whole reply, for engines that accept only that.

The reply then has Ferrule's own JSON form and not the model's wire format: a call, or with `parallel` a list of calls,
each {"name": ..., "arguments": ...}. Such a schema can only require calls. This module does not depend on any wire
format.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from ferrule.core.request import ChoiceMode, ToolChoice
from ferrule.core.tool import ToolDefinition
from ferrule.errors import FormatError
from ferrule.schema.keywords import SUBSCHEMA_KEYWORDS

Schema = dict[str, Any]


def emit_json_schema(tools: Iterable[ToolDefinition], choice: ToolChoice, parallel: bool = True) -> Schema:
    """The schema of a reply that calls tools: one call, or with `parallel` a list of at least one."""
    if choice.mode is not ChoiceMode.REQUIRED:
        raise FormatError(
            f"a JSON Schema cannot express the tool choice {choice.mode.value!r}: it would constrain text answers too",
            hint="Use tool choice 'required', or an engine that accepts a grammar or a structural tag.",
        )
    definitions: dict[str, Schema] = {}
    calls = [_call(tool, definitions) for tool in choice.select_tools(tools)]
    call = calls[0] if len(calls) == 1 else {"anyOf": calls}
    reply: Schema = {"type": "array", "items": call, "minItems": 1} if parallel else call
    return {**reply, "$defs": definitions} if definitions else reply


def _call(tool: ToolDefinition, definitions: dict[str, Schema]) -> Schema:
    base = f"#/$defs/{tool.name}"
    arguments, has_refs = _rebase(tool.parameters, base)
    if has_refs:
        # The whole document moves, so that the pointers of its references stay valid relative to it.
        definitions[tool.name] = arguments
        arguments = {"$ref": base}
    return {
        "type": "object",
        "properties": {"name": {"const": tool.name}, "arguments": arguments},
        "required": ["name", "arguments"],
        "additionalProperties": False,
    }


def _rebase(schema: Any, base: str) -> tuple[Any, bool]:
    """The schema with its local references rebased to `base`, and whether it has any."""
    if not isinstance(schema, dict):
        return schema, False
    result: Schema = {}
    has_refs = False
    for keyword, value in cast("Schema", schema).items():
        result[keyword] = value
        if keyword == "$ref" and isinstance(value, str) and value.startswith("#"):
            result[keyword], has_refs = base + value[1:], True
        elif keyword in SUBSCHEMA_KEYWORDS or keyword in _OLD_KEYWORDS:
            result[keyword], has_inner_refs = _rebase_children(
                value, base, (SUBSCHEMA_KEYWORDS.get(keyword) or SUBSCHEMA_KEYWORDS["$defs"]).shape
            )
            has_refs = has_refs or has_inner_refs
    # An `$id` here would change the base of references that point into the outer document.
    return {keyword: value for keyword, value in result.items() if keyword not in ("$id", "$schema")}, has_refs


def _rebase_children(value: Any, base: str, shape: str) -> tuple[Any, bool]:
    if shape == "map" and isinstance(value, dict):
        pairs = {name: _rebase(inner, base) for name, inner in cast("Schema", value).items()}
        return {name: inner for name, (inner, _) in pairs.items()}, any(has_refs for _, has_refs in pairs.values())
    if isinstance(value, list):
        items = [_rebase(inner, base) for inner in cast("list[Any]", value)]
        return [inner for inner, _ in items], any(has_refs for _, has_refs in items)
    return _rebase(value, base)


# Drafts before 2019-09 keep definitions here. Admission has already rewritten all other old keywords.
_OLD_KEYWORDS = ("definitions",)
