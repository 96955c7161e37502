"""Rephrase: a schema in keywords that llguidance knows, where there is an exact other spelling. Nothing is lost."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

# Where one of these stands beside `unevaluated...`, what counts as evaluated is not known from this schema alone.
_IN_PLACE = frozenset({"$ref", "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas"})


def rephrased(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema with `unevaluated...` and `propertyNames` said in other words, where that is exact."""
    said = dict(schema)
    if not _IN_PLACE & said.keys():
        _rename(said, "unevaluatedProperties", "additionalProperties")
        if "contains" not in said:
            _rename(said, "unevaluatedItems", "items")
    _names_as_pattern(said)
    return said


def _rename(schema: dict[str, Any], old: str, new: str) -> None:
    if old not in schema:
        return
    held = schema.pop(old)
    # Where the other is there already, it has evaluated everything.
    schema.setdefault(new, held)


def _names_as_pattern(schema: dict[str, Any]) -> None:
    """`propertyNames` that a single pattern can say, as patternProperties and nothing beside them."""
    names, others = schema.get("propertyNames"), schema.get("additionalProperties", True)
    pattern = _pattern_of(cast("dict[str, Any]", names)) if isinstance(names, dict) else None
    # A named property would have to fit `additionalProperties` too, once that is held by a pattern.
    if pattern is None or "patternProperties" in schema or (schema.get("properties") and others is not True):
        return
    if others is False:
        return
    del schema["propertyNames"]
    schema["patternProperties"] = {pattern: others}
    schema["additionalProperties"] = False


def _pattern_of(names: dict[str, Any]) -> str | None:
    """The pattern of the allowed names; None where they are told by more than one keyword."""
    asked = {key: held for key, held in names.items() if key not in ("type", "title", "description")}
    if len(asked) != 1 or names.get("type", "string") != "string":
        return None
    ((keyword, held),) = asked.items()
    match keyword:
        case "pattern":
            return str(held)
        case "enum" | "const":
            values = cast("list[object]", held) if keyword == "enum" else [held]
            return f"^(?:{'|'.join(_literally(value) for value in values if isinstance(value, str))})$"
        case _:
            return None


def _literally(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_ ]", lambda found: f"\\x{{{ord(found[0]):x}}}", text)
