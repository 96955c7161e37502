"""The keywords of JSON Schema 2020-12 that contain subschemas: one table for everything that walks a schema.

The table says only how a keyword holds its subschemas and what they apply to, not what the keyword means.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

Shape: TypeAlias = Literal["one", "many", "map"]
# value: the same value; part: a part of the value; nothing: only the target of a `$ref`, or an annotation
AppliesTo: TypeAlias = Literal["value", "part", "nothing"]
Subschema: TypeAlias = "dict[str, object] | bool"


@dataclass(frozen=True, slots=True)
class SubschemaKeyword:
    """How a keyword holds subschemas, and what they apply to."""

    shape: Shape
    applies_to: AppliesTo


SUBSCHEMA_KEYWORDS: Mapping[str, SubschemaKeyword] = {
    "$defs": SubschemaKeyword("map", "nothing"),
    "allOf": SubschemaKeyword("many", "value"),
    "anyOf": SubschemaKeyword("many", "value"),
    "oneOf": SubschemaKeyword("many", "value"),
    "not": SubschemaKeyword("one", "value"),
    "if": SubschemaKeyword("one", "value"),
    "then": SubschemaKeyword("one", "value"),
    "else": SubschemaKeyword("one", "value"),
    "dependentSchemas": SubschemaKeyword("map", "value"),
    "properties": SubschemaKeyword("map", "part"),
    "patternProperties": SubschemaKeyword("map", "part"),
    "additionalProperties": SubschemaKeyword("one", "part"),
    "propertyNames": SubschemaKeyword("one", "part"),
    "unevaluatedProperties": SubschemaKeyword("one", "part"),
    "prefixItems": SubschemaKeyword("many", "part"),
    "items": SubschemaKeyword("one", "part"),
    "contains": SubschemaKeyword("one", "part"),
    "unevaluatedItems": SubschemaKeyword("one", "part"),
    "contentSchema": SubschemaKeyword("one", "nothing"),
}


@dataclass(frozen=True, slots=True)
class Child:
    """A direct subschema of a schema, with the pointer tokens that lead to it."""

    tokens: tuple[str | int, ...]
    applies_to: AppliesTo
    schema: Subschema


def children(schema: Mapping[str, object]) -> Iterator[Child]:
    """Every direct subschema of a 2020-12 schema. The shapes of its keywords must already be validated."""
    for keyword, value in schema.items():
        holder = SUBSCHEMA_KEYWORDS.get(keyword)
        if holder is None:
            continue
        if holder.shape == "one":
            yield Child((keyword,), holder.applies_to, cast(Subschema, value))
        elif holder.shape == "many":
            for index, item in enumerate(cast("list[Subschema]", value)):
                yield Child((keyword, index), holder.applies_to, item)
        else:
            for name, item in cast("dict[str, Subschema]", value).items():
                yield Child((keyword, name), holder.applies_to, item)
