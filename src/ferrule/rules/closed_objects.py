"""Close objects: allow the declared properties and no others. `schema.object_members` says why, and where not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ferrule.schema.object_members import needs_additional_members

# Beside one of these keywords, `properties` may not list everything that the schema declares.
_DECLARES_MORE = (
    "additionalProperties",
    "patternProperties",
    "unevaluatedProperties",
    "allOf",
    "anyOf",
    "oneOf",
    "$ref",
)
_MAPS = ("properties", "$defs", "patternProperties")
_LISTS = ("prefixItems",)
_SINGLE = ("items", "additionalProperties")


def close_objects(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Set `additionalProperties` to false on every object that lists properties and does not mention other ones."""
    result = {keyword: _close_keyword(keyword, value) for keyword, value in schema.items()}
    properties = result.get("properties")
    if (
        properties
        and set(result.get("required", ())) <= set(properties)
        and not any(keyword in result for keyword in _DECLARES_MORE)
        and not needs_additional_members(result)
    ):
        result["additionalProperties"] = False
    return result


def _close_keyword(keyword: str, value: Any) -> Any:
    if keyword in _MAPS and isinstance(value, Mapping):
        return {name: _close_subschema(schema) for name, schema in cast("Mapping[str, Any]", value).items()}
    if keyword in _LISTS and isinstance(value, list):
        return [_close_subschema(schema) for schema in cast("list[Any]", value)]
    return _close_subschema(value) if keyword in _SINGLE else value


def _close_subschema(schema: Any) -> Any:
    return close_objects(cast("Mapping[str, Any]", schema)) if isinstance(schema, Mapping) else schema
