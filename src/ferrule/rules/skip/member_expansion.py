"""Opened: a rule whose objects of JSON are written out as members in a row, so that what is forced in them shows.

The language stays the same: an object is opened only where its schema says nothing that a row of members does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from ferrule.core.json_text import dumps
from ferrule.rules.closed_objects import closed
from ferrule.rules.lowering import MOST_COUNTED
from ferrule.rules.rule import RuleNode, Shared, Str, Text, Value, in_order, one_of, rebuilt, seq
from ferrule.schema.notation import JSON, Quote

_SAYS_NOTHING = frozenset({"title", "description", "default", "examples", "deprecated", "$comment", "$schema"})
_OF_OBJECTS = frozenset({"type", "properties", "required", "additionalProperties", "$defs"})
_OF_STRINGS = frozenset({"type", "minLength", "maxLength"})
_WORDS = {"boolean": ("true", "false"), "null": ("null",)}
_QUOTE = JSON.quotes[0]
# The opening quote is a text of its own: it must come, and what stands after it is free.
TAIL = Quote("", _QUOTE.close, _QUOTE.escapes)


def opened(node: RuleNode) -> RuleNode:
    """The node with every object in it opened as far as it goes."""
    match node:
        case Shared(inner):
            return opened(inner)
        case Value(schema, root, notation, excludes, any_order) if notation is JSON and not excludes:
            if schema is not root or any_order or not isinstance(schema, Mapping):
                return node
            return _value(cast("Mapping[str, Any]", closed(cast("Mapping[str, Any]", schema))), {})
        case _:
            return rebuilt(node, opened)


def _value(schema: Any, definitions: Mapping[str, Any]) -> RuleNode:
    if not isinstance(schema, Mapping):
        return _leaf({} if schema is True else {"not": {}}, definitions)
    fields = {key: held for key, held in cast("Mapping[str, Any]", schema).items() if key not in _SAYS_NOTHING}
    kind = fields.get("type")
    if _is_listed(fields):
        return one_of(*(Text(dumps(value)) for value in fields["enum"]))
    if kind == "object" and _is_row(fields):
        return _members(fields, {**definitions, **fields.get("$defs", {})})
    if kind == "string" and fields.keys() <= _OF_STRINGS:
        return seq(_QUOTE.open, _tail(fields))
    if isinstance(kind, str) and kind in _WORDS and fields.keys() == {"type"}:
        return one_of(*map(Text, _WORDS[kind]))
    if fields.keys() == {"anyOf"} and _is_apart(fields["anyOf"]):
        return one_of(*(_value(option, definitions) for option in fields["anyOf"]))
    return _leaf(cast("Mapping[str, Any]", schema), definitions)


def _members(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> RuleNode:
    needed = frozenset(cast("list[str]", schema.get("required", [])))
    elements = [
        (name in needed, seq(f"{dumps(name)}{JSON.colon}", _value(held, definitions)))
        for name, held in cast("Mapping[str, Any]", schema["properties"]).items()
    ]
    return seq("{", in_order(elements, JSON.comma, Shared), "}")


def _leaf(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> RuleNode:
    """A value as it was, with the definitions that it may refer to."""
    whole = {**schema, "$defs": dict(definitions)} if definitions and '"$ref"' in dumps(schema) else dict(schema)
    return Value(whole, whole)


def _is_row(schema: Mapping[str, Any]) -> bool:
    properties = schema.get("properties")
    return (
        schema.keys() <= _OF_OBJECTS
        and bool(properties)
        and schema.get("additionalProperties") is False
        and set(schema.get("required", ())) <= set(cast("Mapping[str, Any]", properties))
    )


def _is_listed(schema: Mapping[str, Any]) -> bool:
    """Texts that differ, and nothing else to be said of them."""
    values = cast("list[Any]", schema.get("enum") or [])
    is_plain = schema.keys() <= {"type", "enum"} and schema.get("type", "string") == "string"
    return is_plain and bool(values) and all(isinstance(value, str) for value in values)


def _tail(schema: Mapping[str, Any]) -> Str:
    """The string after its opening quote. A length that no target counts to is left to the validator."""
    least, most = min(int(schema.get("minLength", 0)), MOST_COUNTED), schema.get("maxLength")
    return Str(TAIL, least, None if most is None or most > MOST_COUNTED else max(least, int(most)))


def _is_apart(options: list[Any]) -> bool:
    """Whether the first character tells options apart: a text, or null."""
    kinds = [cast("Any", option).get("type") if isinstance(option, Mapping) else None for option in options]
    return sorted(map(str, kinds)) == ["null", "string"]


def after_some(tail: Str, written: int) -> Str:
    """A string of which so many characters stand already."""
    most = None if tail.at_most is None else max(tail.at_most - written, 0)
    return replace(tail, at_least=max(tail.at_least - written, 0), at_most=most)
