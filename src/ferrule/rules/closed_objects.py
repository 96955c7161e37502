"""Close: declared arguments and no others.

A schema that lists properties and says nothing of others lets any be written; a model that is offered a list should be
held to it, on every target alike, and no target can keep unlisted names apart from each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

# Where one of these stands beside the properties, what they list may not be all that is declared.
_MORE = ("additionalProperties", "patternProperties", "unevaluatedProperties", "allOf", "anyOf", "oneOf", "$ref")
_MAPS = ("properties", "$defs", "patternProperties")
_LISTS = ("prefixItems",)
_SINGLE = ("items", "additionalProperties")


def closed(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The same schema, in which an object with listed properties takes no others unless the schema speaks of them."""
    made = {keyword: _inside(keyword, held) for keyword, held in schema.items()}
    listed = made.get("properties")
    if listed and set(made.get("required", ())) <= set(listed) and not any(keyword in made for keyword in _MORE):
        made["additionalProperties"] = False
    return made


def _inside(keyword: str, held: Any) -> Any:
    if keyword in _MAPS and isinstance(held, Mapping):
        return {name: _closed(schema) for name, schema in cast("Mapping[str, Any]", held).items()}
    if keyword in _LISTS and isinstance(held, list):
        return [_closed(schema) for schema in cast("list[Any]", held)]
    return _closed(held) if keyword in _SINGLE else held


def _closed(schema: Any) -> Any:
    return closed(cast("Mapping[str, Any]", schema)) if isinstance(schema, Mapping) else schema
