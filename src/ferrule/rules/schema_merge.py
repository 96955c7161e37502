"""Merge two schemas that must both hold into one. The result may be wider than both together, never narrower."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from ferrule.core.json_text import canonical

Schema = Mapping[str, Any]
_ALL = ("object", "array", "string", "number", "integer", "boolean", "null")


def merge_schemas(left: Schema, right: Schema) -> dict[str, Any]:
    """One schema for values that fit both. If both have a keyword that cannot be combined, the left value stays."""
    both: dict[str, Any] = dict(left)
    for keyword, value in right.items():
        if keyword not in both:
            both[keyword] = value
        elif keyword in _COMBINERS:
            both[keyword] = _COMBINERS[keyword](both[keyword], value)
    return both


def types_of(schema: Schema) -> list[str]:
    """The types that a schema names; all types if it names none. An integer is also a number."""
    named = schema.get("type")
    if named is None:
        return list(_ALL)
    return [named] if isinstance(named, str) else list(cast("list[str]", named))


def _types(left: Any, right: Any) -> list[str]:
    ours, theirs = types_of({"type": left}), types_of({"type": right})
    common = [name for name in ours if name in theirs or (name == "integer" and "number" in theirs)]
    common.extend(name for name in theirs if name == "integer" and "number" in ours and name not in common)
    return common or ours


def _values(left: list[Any], right: list[Any]) -> list[Any]:
    right_values = {canonical(value) for value in right}
    return [value for value in left if canonical(value) in right_values] or left


def _properties(left: Schema, right: Schema) -> dict[str, Any]:
    both = dict(left)
    for name, schema in right.items():
        existing = both.get(name)
        if isinstance(existing, Mapping) and isinstance(schema, Mapping):
            both[name] = merge_schemas(cast("Schema", existing), cast("Schema", schema))
        else:
            both[name] = schema
    return both


def _names(left: list[str], right: list[str]) -> list[str]:
    return list(dict.fromkeys((*left, *right)))


_COMBINERS: dict[str, Callable[[Any, Any], Any]] = {
    "type": _types,
    "enum": _values,
    "properties": _properties,
    "required": _names,
    "minLength": max,
    "minItems": max,
    "minimum": max,
    "exclusiveMinimum": max,
    "maxLength": min,
    "maxItems": min,
    "maximum": min,
    "exclusiveMaximum": min,
}
