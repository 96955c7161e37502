"""Plain JSON Schema: for engines that take one schema for the whole reply and nothing else.

The reply is then JSON of Ferrule's own making and not the model's wire format: a call, or with `parallel` a list of
calls, each {"name": ..., "arguments": ...}. It can only say that calls are made. Must not know any wire format.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from ferrule.core.choice import ChoiceMode, ToolChoice
from ferrule.core.tool import ToolDefinition
from ferrule.errors import FormatError
from ferrule.schema.keywords import PLACES

Schema = dict[str, Any]


def emit_json_schema(tools: Iterable[ToolDefinition], choice: ToolChoice, parallel: bool = True) -> Schema:
    """The schema of a reply that calls tools: one call, or with `parallel` a list of at least one."""
    if choice.mode is not ChoiceMode.REQUIRED:
        raise FormatError(
            f"a JSON Schema cannot say the choice {choice.mode.value!r}: it would bind the text of an answer too",
            hint="Require a call, or choose an engine that takes a grammar or a structural tag.",
        )
    definitions: dict[str, Schema] = {}
    calls = [_call(tool, definitions) for tool in choice.offered(tools)]
    call = calls[0] if len(calls) == 1 else {"anyOf": calls}
    reply: Schema = {"type": "array", "items": call, "minItems": 1} if parallel else call
    return {**reply, "$defs": definitions} if definitions else reply


def _call(tool: ToolDefinition, definitions: dict[str, Schema]) -> Schema:
    place = f"#/$defs/{tool.name}"
    arguments, has_refs = _moved(tool.parameters, place)
    if has_refs:
        # The whole document moves, so that what a reference points to is found at the same place inside of it.
        definitions[tool.name] = arguments
        arguments = {"$ref": place}
    return {
        "type": "object",
        "properties": {"name": {"const": tool.name}, "arguments": arguments},
        "required": ["name", "arguments"],
        "additionalProperties": False,
    }


def _moved(schema: Any, place: str) -> tuple[Any, bool]:
    """A schema whose local references lead to `place`, and whether it has any."""
    if not isinstance(schema, dict):
        return schema, False
    moved: Schema = {}
    has_refs = False
    for keyword, held in cast("Schema", schema).items():
        moved[keyword] = held
        if keyword == "$ref" and isinstance(held, str) and held.startswith("#"):
            moved[keyword], has_refs = place + held[1:], True
        elif keyword in PLACES or keyword in _OLD_PLACES:
            moved[keyword], found = _each_moved(held, place, (PLACES.get(keyword) or PLACES["$defs"]).shape)
            has_refs = has_refs or found
    # A document that names itself would catch the references that are meant for the whole.
    return {keyword: held for keyword, held in moved.items() if keyword not in ("$id", "$schema")}, has_refs


def _each_moved(held: Any, place: str, shape: str) -> tuple[Any, bool]:
    if shape == "map" and isinstance(held, dict):
        pairs = {name: _moved(inner, place) for name, inner in cast("Schema", held).items()}
        return {name: inner for name, (inner, _) in pairs.items()}, any(found for _, found in pairs.values())
    if isinstance(held, list):
        items = [_moved(inner, place) for inner in cast("list[Any]", held)]
        return [inner for inner, _ in items], any(found for _, found in items)
    return _moved(held, place)


# Where drafts before 2019-09 keep what references point to; everything else of theirs was rewritten on admission.
_OLD_PLACES = ("definitions",)
