"""Rewrite keywords that llguidance does not support as ones that it does, where the meaning stays exactly the same."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

# Beside one of these keywords, this schema alone does not show what counts as evaluated for `unevaluated...`.
_IN_PLACE = frozenset({"$ref", "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas"})


def rewrite_keywords(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Replace `unevaluated...` and `propertyNames` by supported keywords, where that is exact."""
    result = dict(schema)
    if not _IN_PLACE & result.keys():
        _rename(result, "unevaluatedProperties", "additionalProperties")
        if "contains" not in result:
            _rename(result, "unevaluatedItems", "items")
    _rewrite_property_names(result)
    return result


def _rename(schema: dict[str, Any], old: str, new: str) -> None:
    if old not in schema:
        return
    value = schema.pop(old)
    # If the other keyword is present, it has already evaluated everything, and this one has no effect.
    schema.setdefault(new, value)


def _rewrite_property_names(schema: dict[str, Any]) -> None:
    """Replace `propertyNames` by `patternProperties` and a closed object, if one pattern describes the names."""
    names, others = schema.get("propertyNames"), schema.get("additionalProperties", True)
    pattern = _pattern_of(cast("dict[str, Any]", names)) if isinstance(names, dict) else None
    # A listed property would then also have to match `additionalProperties`, which moves into the pattern.
    if pattern is None or "patternProperties" in schema or (schema.get("properties") and others is not True):
        return
    if others is False:
        return
    del schema["propertyNames"]
    schema["patternProperties"] = {pattern: others}
    schema["additionalProperties"] = False


def _pattern_of(names: dict[str, Any]) -> str | None:
    """The pattern of the allowed names; None if they are defined by another keyword, or by more than one."""
    keywords = {key: value for key, value in names.items() if key not in ("type", "title", "description")}
    if len(keywords) != 1 or names.get("type", "string") != "string":
        return None
    ((keyword, value),) = keywords.items()
    match keyword:
        case "pattern":
            return str(value)
        case "enum" | "const":
            values = cast("list[object]", value) if keyword == "enum" else [value]
            return f"^(?:{'|'.join(_escape_literal(value) for value in values if isinstance(value, str))})$"
        case _:
            return None


def _escape_literal(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_ ]", lambda match: f"\\x{{{ord(match[0]):x}}}", text)
