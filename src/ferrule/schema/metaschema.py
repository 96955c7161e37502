"""Check the value of each keyword: the part of the 2020-12 meta-schema that walking a schema relies on.

Subschemas and limits are checked elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import cast

from ferrule.errors import SchemaError
from ferrule.schema.keywords import SUBSCHEMA_KEYWORDS

TYPES = ("string", "number", "integer", "boolean", "null", "array", "object")
_ANCHOR = re.compile(r"[A-Za-z_][-A-Za-z0-9._]*")


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: object) -> bool:
    return is_number(value) and cast(float, value) >= 0 and int(cast(float, value)) == value


def _is_positive(value: object) -> bool:
    return is_number(value) and cast(float, value) > 0


def _is_names(value: object) -> bool:
    if not isinstance(value, list):
        return False
    names = cast("list[object]", value)
    return all(isinstance(name, str) for name in names) and len(set(names)) == len(names)


def _is_type(value: object) -> bool:
    return value in TYPES if isinstance(value, str) else _is_names(value) and value != [] and _all_types(value)


def _all_types(value: object) -> bool:
    return all(name in TYPES for name in cast("list[object]", value))


def _is_names_by_name(value: object) -> bool:
    return isinstance(value, dict) and all(_is_names(names) for names in cast("dict[str, object]", value).values())


def _is_anchor(value: object) -> bool:
    return isinstance(value, str) and _ANCHOR.fullmatch(value) is not None


def _is_string(value: object) -> bool:
    return isinstance(value, str)


def _is_boolean(value: object) -> bool:
    return isinstance(value, bool)


def _is_filled_list(value: object) -> bool:
    return isinstance(value, list) and value != []


def _is_list(value: object) -> bool:
    return isinstance(value, list)


def _is_map(value: object) -> bool:
    return isinstance(value, dict)


_COUNT = (_is_count, "a non-negative integer")
_STRING = (_is_string, "a string")
_BOOLEAN = (_is_boolean, "true or false")
_NUMBER = (is_number, "a number")

_SHAPES: Mapping[str, tuple[Callable[[object], bool], str]] = {
    "type": (_is_type, f"one of {', '.join(TYPES)}, or a list of different ones"),
    "enum": (_is_filled_list, "a list of at least one value"),
    "required": (_is_names, "a list of different property names, on the object that holds the properties"),
    "dependentRequired": (_is_names_by_name, "an object of lists of different property names"),
    "multipleOf": (_is_positive, "a number above zero"),
    "examples": (_is_list, "a list"),
    "$anchor": (_is_anchor, "a name that starts with a letter or _"),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _NUMBER),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), _COUNT),
    **dict.fromkeys(("minContains", "maxContains"), _COUNT),
    **dict.fromkeys(("uniqueItems", "deprecated", "readOnly", "writeOnly"), _BOOLEAN),
    **dict.fromkeys(("$ref", "pattern", "format", "title", "description", "$comment"), _STRING),
    **dict.fromkeys(("contentEncoding", "contentMediaType"), _STRING),
}
_SUBSCHEMA_SHAPES = {
    "many": (_is_filled_list, "a list of at least one schema"),
    "map": (_is_map, "an object whose values are schemas"),
}


def check_shape(keyword: str, value: object, path: str) -> None:
    """Refuse a keyword whose value has the wrong shape. Unknown keywords may have any value."""
    shape = _SHAPES.get(keyword)
    if shape is None and keyword in SUBSCHEMA_KEYWORDS:
        shape = _SUBSCHEMA_SHAPES.get(SUBSCHEMA_KEYWORDS[keyword].shape)
    if shape is not None and not shape[0](value):
        raise SchemaError(
            f"{keyword} must be {shape[1]}, got {value!r:.60}",
            code="not_a_schema",
            path=path,
            hint=f"Correct the value of {keyword}, or remove the keyword.",
        )


def check_schema(value: object, path: str) -> None:
    """Refuse a schema that is neither an object nor a boolean."""
    if not isinstance(value, dict | bool):
        raise SchemaError(
            f"a schema must be an object, true or false, got {value!r:.60}",
            code="not_a_schema",
            path=path,
            hint='Write a schema here, for example {"type": "string"}.',
        )
