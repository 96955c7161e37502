"""The way down to one part of a value that does not fit, where listing everything would take too long.

Follows references, parts and, among alternatives, the one whose constants the value has: {"op": "and", ...} is meant
for the alternative that says `op` is "and". Each step asks only whether something fits. Must not know the validator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias, cast

from ferrule.schema.keywords import Subschema
from ferrule.schema.pointer import escape, from_fragment
from ferrule.schema.refs import local_target

_MOST_STEPS = 2_000


@dataclass(frozen=True, slots=True)
class Place:
    """A part of the value, where it is, and where the schema stands that it should fit."""

    schema_at: str
    path: str
    part: object


Fits: TypeAlias = Callable[[Place], bool]


def failing_place(root: Subschema, value: object, fits: Fits) -> Place:
    """The deepest place on the way down that does not fit, given that the whole does not."""
    place = Place("", "", value)
    for _ in range(_MOST_STEPS):
        schema = local_target("#" + place.schema_at, root)
        inner = next((at for at in _inside(schema, place) if not fits(at)), None) if isinstance(schema, dict) else None
        if inner is None and isinstance(schema, dict):
            inner = _meant_alternative(schema, place, fits)
        if inner is None:
            return place
        place = inner
    return place


def _inside(schema: dict[str, object], place: Place) -> Iterator[Place]:
    """Every place that must fit for this one to fit."""
    at, path, part = place.schema_at, place.path, place.part
    if "$ref" in schema:
        yield Place(from_fragment(str(schema["$ref"])[1:]), path, part)
    for index in range(_count(schema, "allOf")):
        yield Place(f"{at}/allOf/{index}", path, part)
    if isinstance(part, dict):
        properties = cast("dict[str, object]", schema.get("properties", {}))
        for name, inner in cast("dict[str, object]", part).items():
            if name in properties:
                yield Place(f"{at}/properties/{escape(name)}", f"{path}/{escape(name)}", inner)
    if isinstance(part, list):
        prefix = _count(schema, "prefixItems")
        for index, inner in enumerate(cast("list[object]", part)):
            keyword = f"prefixItems/{index}" if index < prefix else "items"
            if index < prefix or "items" in schema:
                yield Place(f"{at}/{keyword}", f"{path}/{index}", inner)


def _meant_alternative(schema: dict[str, object], place: Place, fits: Fits) -> Place | None:
    """The only alternative whose constants the value has; None where that is none or several, or where one fits."""
    for keyword in ("oneOf", "anyOf"):
        places = [
            Place(f"{place.schema_at}/{keyword}/{index}", place.path, place.part)
            for index in range(_count(schema, keyword))
        ]
        if not places or any(fits(at) for at in places):
            continue
        branches = cast("list[Subschema]", schema[keyword])
        meant = [at for at, branch in zip(places, branches, strict=True) if _has_constants(branch, place.part)]
        if len(meant) == 1:
            return meant[0]
    return None


def _has_constants(branch: Subschema, part: object) -> bool:
    properties = cast("dict[str, object]", branch.get("properties", {})) if isinstance(branch, dict) else {}
    constants = {
        name: cast("dict[str, object]", inner)["const"]
        for name, inner in properties.items()
        if isinstance(inner, dict) and "const" in inner
    }
    if not constants or not isinstance(part, dict):
        return False
    held = cast("dict[str, object]", part)
    return all(name in held and held[name] == constant for name, constant in constants.items())


def _count(schema: dict[str, object], keyword: str) -> int:
    return len(cast("list[object]", schema.get(keyword, [])))
