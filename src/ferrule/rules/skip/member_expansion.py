"""Expand JSON objects of a rule into sequences of members, so that the forced text inside of them becomes visible.

The language stays the same: an object is expanded only if its schema has no keyword that a sequence of members cannot
express.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from ferrule.core.json_text import dumps
from ferrule.rules.closed_objects import close_objects
from ferrule.rules.lowering import MAX_COUNTED_LENGTH
from ferrule.rules.rule import RuleNode, Shared, Str, Text, Value, in_order, map_children, one_of, seq
from ferrule.schema.notation import JSON, Quote

_ANNOTATIONS = frozenset({"title", "description", "default", "examples", "deprecated", "$comment", "$schema"})
_OF_OBJECTS = frozenset({"type", "properties", "required", "additionalProperties", "$defs"})
_OF_STRINGS = frozenset({"type", "minLength", "maxLength"})
_WORDS = {"boolean": ("true", "false"), "null": ("null",)}
_QUOTE = JSON.quotes[0]
# The opening quote is a separate text, because it is forced while the rest of the string is free.
TAIL = Quote("", _QUOTE.close, _QUOTE.escapes)


def expand_members(node: RuleNode) -> RuleNode:
    """The node with every object in it expanded as far as possible."""
    match node:
        case Shared(inner):
            return expand_members(inner)
        case Value(schema, root, notation, excludes, any_order) if notation is JSON and not excludes:
            if schema is not root or any_order or not isinstance(schema, Mapping):
                return node
            return _value(cast("Mapping[str, Any]", close_objects(cast("Mapping[str, Any]", schema))), {})
        case _:
            return map_children(node, expand_members)


def _value(schema: Any, definitions: Mapping[str, Any]) -> RuleNode:
    if not isinstance(schema, Mapping):
        return _leaf({} if schema is True else {"not": {}}, definitions)
    fields = {
        key: keyword_value
        for key, keyword_value in cast("Mapping[str, Any]", schema).items()
        if key not in _ANNOTATIONS
    }
    kind = fields.get("type")
    if _is_string_enum(fields):
        return one_of(*(Text(dumps(value)) for value in fields["enum"]))
    if kind == "object" and _is_member_list(fields):
        return _members(fields, {**definitions, **fields.get("$defs", {})})
    if kind == "string" and fields.keys() <= _OF_STRINGS:
        return seq(_QUOTE.open, _tail(fields))
    if isinstance(kind, str) and kind in _WORDS and fields.keys() == {"type"}:
        return one_of(*map(Text, _WORDS[kind]))
    if fields.keys() == {"anyOf"} and _is_string_or_null(fields["anyOf"]):
        return one_of(*(_value(option, definitions) for option in fields["anyOf"]))
    return _leaf(cast("Mapping[str, Any]", schema), definitions)


def _members(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> RuleNode:
    required = frozenset(cast("list[str]", schema.get("required", [])))
    elements = [
        (name in required, seq(f"{dumps(name)}{JSON.colon}", _value(subschema, definitions)))
        for name, subschema in cast("Mapping[str, Any]", schema["properties"]).items()
    ]
    return seq("{", in_order(elements, JSON.comma, Shared), "}")


def _leaf(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> RuleNode:
    """A value that is not expanded, with the definitions that it may refer to."""
    whole = {**schema, "$defs": dict(definitions)} if definitions and '"$ref"' in dumps(schema) else dict(schema)
    return Value(whole, whole)


def _is_member_list(schema: Mapping[str, Any]) -> bool:
    properties = schema.get("properties")
    return (
        schema.keys() <= _OF_OBJECTS
        and bool(properties)
        and schema.get("additionalProperties") is False
        and set(schema.get("required", ())) <= set(cast("Mapping[str, Any]", properties))
    )


def _is_string_enum(schema: Mapping[str, Any]) -> bool:
    """Whether a schema is a list of strings and nothing else."""
    values = cast("list[Any]", schema.get("enum") or [])
    is_plain = schema.keys() <= {"type", "enum"} and schema.get("type", "string") == "string"
    return is_plain and bool(values) and all(isinstance(value, str) for value in values)


def _tail(schema: Mapping[str, Any]) -> Str:
    """The string after its opening quote. The validator checks a length that no target counts to."""
    least, most = min(int(schema.get("minLength", 0)), MAX_COUNTED_LENGTH), schema.get("maxLength")
    return Str(TAIL, least, None if most is None or most > MAX_COUNTED_LENGTH else max(least, int(most)))


def _is_string_or_null(options: list[Any]) -> bool:
    """Whether the options are a string and null, which differ in their first character."""
    kinds = [cast("Any", option).get("type") if isinstance(option, Mapping) else None for option in options]
    return sorted(map(str, kinds)) == ["null", "string"]


def shorten_tail(tail: Str, count: int) -> Str:
    """The rest of a string of which `count` characters are already written."""
    most = None if tail.at_most is None else max(tail.at_most - count, 0)
    return replace(tail, at_least=max(tail.at_least - count, 0), at_most=most)
