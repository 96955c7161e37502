"""Merge: two schemas that must both hold, as one that can be walked. Wider where it cannot tell, never narrower."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from ferrule.core.json_text import canonical

Schema = Mapping[str, Any]
_ALL = ("object", "array", "string", "number", "integer", "boolean", "null")


def merged(left: Schema, right: Schema) -> dict[str, Any]:
    """One schema for what fits both. A keyword that both have and that has no known meeting keeps the left's value."""
    both: dict[str, Any] = dict(left)
    for keyword, value in right.items():
        if keyword not in both:
            both[keyword] = value
        elif keyword in _MEETINGS:
            both[keyword] = _MEETINGS[keyword](both[keyword], value)
    return both


def types_of(schema: Schema) -> list[str]:
    """The types that a schema names; integers are numbers too."""
    named = schema.get("type")
    if named is None:
        return list(_ALL)
    return [named] if isinstance(named, str) else list(cast("list[str]", named))


def _types(left: Any, right: Any) -> list[str]:
    ours, theirs = types_of({"type": left}), types_of({"type": right})
    kept = [name for name in ours if name in theirs or (name == "integer" and "number" in theirs)]
    kept.extend(name for name in theirs if name == "integer" and "number" in ours and name not in kept)
    return kept or ours


def _values(left: list[Any], right: list[Any]) -> list[Any]:
    known = {canonical(value) for value in right}
    return [value for value in left if canonical(value) in known] or left


def _properties(left: Schema, right: Schema) -> dict[str, Any]:
    both = dict(left)
    for name, schema in right.items():
        mine = both.get(name)
        if isinstance(mine, Mapping) and isinstance(schema, Mapping):
            both[name] = merged(cast("Schema", mine), cast("Schema", schema))
        else:
            both[name] = schema
    return both


def _names(left: list[str], right: list[str]) -> list[str]:
    return list(dict.fromkeys((*left, *right)))


_MEETINGS: dict[str, Callable[[Any, Any], Any]] = {
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
