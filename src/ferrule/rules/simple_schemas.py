"""Recognize simple schemas, which llguidance is known to compile. Most tools have one, and skip the compile check."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ferrule.schema.value_decoder import type_name

_ANNOTATIONS = frozenset({"title", "description", "default", "examples", "deprecated", "$comment"})
_ALLOWED: dict[str, frozenset[str]] = {
    "object": frozenset({"properties", "required"}),
    "array": frozenset({"items", "minItems", "maxItems"}),
    "string": frozenset({"enum", "minLength", "maxLength"}),
    "integer": frozenset({"enum", "minimum", "maximum"}),
    "number": frozenset({"minimum", "maximum"}),
    "boolean": frozenset(),
    "null": frozenset(),
}
_LARGEST = 10_000
_BOUNDS = (("minItems", "maxItems", 0), ("minLength", "maxLength", 0), ("minimum", "maximum", -_LARGEST))


def is_simple(schema: Any) -> bool:
    """Whether a schema uses only keywords that compile in any combination."""
    if not isinstance(schema, Mapping):
        return False
    fields = cast("Mapping[str, Any]", schema)
    kind = fields.get("type")
    if not isinstance(kind, str) or kind not in _ALLOWED or fields.keys() - _ANNOTATIONS - _ALLOWED[kind] - {"type"}:
        return False
    properties: Any = fields.get("properties", {})
    if not isinstance(properties, Mapping):
        return False
    inner = (*cast("Mapping[str, Any]", properties).values(), *((fields["items"],) if "items" in fields else ()))
    return (
        set(fields.get("required", ())) <= set(cast("Mapping[str, Any]", properties))
        and ("enum" not in fields or _are_small_values_of(kind, fields["enum"]))
        and all(_are_in_order(fields.get(low), fields.get(high), least) for low, high, least in _BOUNDS)
        and all(map(is_simple, inner))
    )


def strip_annotations(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A simple schema without its annotations."""
    result = {keyword: value for keyword, value in schema.items() if keyword not in _ANNOTATIONS}
    if "properties" in result:
        result["properties"] = {name: strip_annotations(value) for name, value in result["properties"].items()}
    if "items" in result:
        result["items"] = strip_annotations(result["items"])
    return result


def _are_small_values_of(kind: str, values: Any) -> bool:
    return bool(values) and all(type_name(value) == kind and _is_small(value) for value in values)


def _is_small(value: Any) -> bool:
    return isinstance(value, str) or (value.__class__ is int and abs(value) <= _LARGEST)


def _are_in_order(low: Any, high: Any, least: int) -> bool:
    bounds = [bound for bound in (low, high) if bound is not None]
    small = all(bound.__class__ is int and least <= bound <= _LARGEST for bound in bounds)
    return small and (len(bounds) < 2 or low <= high)
