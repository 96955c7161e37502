"""Where subschemas live in JSON Schema 2020-12: one table, read by everything that walks a schema.

Must not know what any keyword means beyond the place that its subschemas are applied to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

Shape: TypeAlias = Literal["one", "many", "map"]
# here: the same value; below: a part of the value; apart: nothing (kept for a `$ref`, or only an annotation)
Reach: TypeAlias = Literal["here", "below", "apart"]
Subschema: TypeAlias = "dict[str, object] | bool"


@dataclass(frozen=True, slots=True)
class Place:
    """How a keyword holds subschemas, and what they are applied to."""

    shape: Shape
    reach: Reach


PLACES: Mapping[str, Place] = {
    "$defs": Place("map", "apart"),
    "allOf": Place("many", "here"),
    "anyOf": Place("many", "here"),
    "oneOf": Place("many", "here"),
    "not": Place("one", "here"),
    "if": Place("one", "here"),
    "then": Place("one", "here"),
    "else": Place("one", "here"),
    "dependentSchemas": Place("map", "here"),
    "properties": Place("map", "below"),
    "patternProperties": Place("map", "below"),
    "additionalProperties": Place("one", "below"),
    "propertyNames": Place("one", "below"),
    "unevaluatedProperties": Place("one", "below"),
    "prefixItems": Place("many", "below"),
    "items": Place("one", "below"),
    "contains": Place("one", "below"),
    "unevaluatedItems": Place("one", "below"),
    "contentSchema": Place("one", "apart"),
}


@dataclass(frozen=True, slots=True)
class Child:
    """A subschema directly inside another, with the tokens that lead to it."""

    tokens: tuple[str | int, ...]
    reach: Reach
    schema: Subschema


def children(schema: Mapping[str, object]) -> Iterator[Child]:
    """Every direct subschema of a 2020-12 schema whose shape is already known to be right."""
    for keyword, held in schema.items():
        place = PLACES.get(keyword)
        if place is None:
            continue
        if place.shape == "one":
            yield Child((keyword,), place.reach, cast(Subschema, held))
        elif place.shape == "many":
            for index, item in enumerate(cast("list[Subschema]", held)):
                yield Child((keyword, index), place.reach, item)
        else:
            for name, item in cast("dict[str, Subschema]", held).items():
                yield Child((keyword, name), place.reach, item)
