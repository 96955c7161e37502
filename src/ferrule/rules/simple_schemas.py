"""Recognize simple schemas, which llguidance is known to compile. Most tools have one, and skip the compile check."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ferrule.schema.value_decoder import type_name

_ANNOTATIONS = frozenset({"title", "description", "default", "examples", "deprecated", "$comment"})
_ALLOWED: dict[str, frozenset[str]] = {
    "object": frozenset({"properties", "required", "additionalProperties"}),
    "array": frozenset({"items", "minItems", "maxItems"}),
    "string": frozenset({"enum", "minLength", "maxLength"}),
    "integer": frozenset({"enum", "minimum", "maximum"}),
    "number": frozenset({"minimum", "maximum"}),
    "boolean": frozenset(),
    "null": frozenset(),
}
_LARGEST = 10_000
_BOUNDS: dict[str, tuple[str, str, int]] = {
    "array": ("minItems", "maxItems", 0),
    "string": ("minLength", "maxLength", 0),
    "integer": ("minimum", "maximum", -_LARGEST),
    "number": ("minimum", "maximum", -_LARGEST),
}


def is_simple(schema: Any) -> bool:
    """Whether a schema uses only keywords that compile in any combination."""
    return simple_form(schema) is not None


def simple_form(schema: Any, *, closes: bool = False) -> dict[str, Any] | None:
    """A simple schema without its annotations; None if the schema is not simple.

    `closes` closes its objects as `closed_objects` does. All of it is one walk, because a set of many tools is as many
    such walks.
    """
    if not isinstance(schema, Mapping):
        return None
    fields = cast("Mapping[str, Any]", schema)
    kind = fields.get("type")
    if not isinstance(kind, str) or kind not in _ALLOWED:
        return _simple_options(fields) if "anyOf" in fields else None
    allowed = _ALLOWED[kind]
    form: dict[str, Any] = {}
    for keyword, value in fields.items():
        if keyword in _ANNOTATIONS:
            continue
        if keyword == "type":
            form[keyword] = value
        elif keyword not in allowed:
            return None
        elif keyword == "properties":
            if not isinstance(value, Mapping):
                return None
            members = cast("Mapping[str, Any]", value)
            form[keyword] = {name: _inner_form(inner, closes) for name, inner in members.items()}
            if None in form[keyword].values():
                return None
        elif keyword == "items":
            form[keyword] = _inner_form(value, closes)
            if form[keyword] is None:
                return None
        else:
            form[keyword] = value
    if not _is_consistent(kind, form):
        return None
    if closes and form.get("properties"):
        form.setdefault("additionalProperties", False)
    return form


def _inner_form(schema: Any, closes: bool) -> dict[str, Any] | None:
    """The simple form of a member or an item, which may also be any value."""
    if isinstance(schema, Mapping) and _ANNOTATIONS.issuperset(cast("Mapping[str, Any]", schema)):
        return {}
    return simple_form(schema, closes=closes)


def _simple_options(fields: Mapping[str, Any]) -> dict[str, Any] | None:
    """The simple form of alternatives, with nothing but annotations beside them. Objects in them are not closed."""
    options = fields["anyOf"]
    if not isinstance(options, list) or not options or fields.keys() - _ANNOTATIONS - {"anyOf"}:
        return None
    forms = list(map(simple_form, cast("list[Any]", options)))
    return None if None in forms else {"anyOf": forms}


def _is_consistent(kind: str, form: Mapping[str, Any]) -> bool:
    if "required" in form and not set(form["required"]) <= set(form.get("properties", ())):
        return False
    if not isinstance(form.get("additionalProperties", False), bool):
        return False
    if "enum" in form and not _are_small_values_of(kind, form["enum"]):
        return False
    if kind not in _BOUNDS:
        return True
    low, high, least = _BOUNDS[kind]
    return (low not in form and high not in form) or _are_in_order(form.get(low), form.get(high), least)


def _are_small_values_of(kind: str, values: Any) -> bool:
    return bool(values) and all(type_name(value) == kind and _is_small(value) for value in values)


def _is_small(value: Any) -> bool:
    return isinstance(value, str) or (value.__class__ is int and abs(value) <= _LARGEST)


def _are_in_order(low: Any, high: Any, least: int) -> bool:
    bounds = [bound for bound in (low, high) if bound is not None]
    small = all(bound.__class__ is int and least <= bound <= _LARGEST for bound in bounds)
    return small and (len(bounds) < 2 or low <= high)
