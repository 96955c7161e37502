"""Find one part of a value that does not fit, if listing all faults would take too long.

The search follows references and parts. Among alternatives it follows the one whose constants match the value:
{"op": "and", ...} matches the alternative in which `op` is "and". Each step only asks whether a part fits. This module
does not depend on the validator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias, cast

from ferrule.schema.keywords import Subschema
from ferrule.schema.pointer import escape, from_fragment
from ferrule.schema.refs import local_target

_MAX_STEPS = 2_000


@dataclass(frozen=True, slots=True)
class FaultLocation:
    """A part of the value with its path, and the pointer to the schema that it should fit."""

    schema_path: str
    path: str
    value: object


Fits: TypeAlias = Callable[[FaultLocation], bool]


def locate_fault(root: Subschema, value: object, fits: Fits) -> FaultLocation:
    """The deepest part on the way down that does not fit, given that the whole value does not."""
    location = FaultLocation("", "", value)
    for _ in range(_MAX_STEPS):
        schema = local_target("#" + location.schema_path, root)
        inner = (
            next((candidate for candidate in _required_locations(schema, location) if not fits(candidate)), None)
            if isinstance(schema, dict)
            else None
        )
        if inner is None and isinstance(schema, dict):
            inner = _intended_alternative(schema, location, fits)
        if inner is None:
            return location
        location = inner
    return location


def _required_locations(schema: dict[str, object], location: FaultLocation) -> Iterator[FaultLocation]:
    """Every location that must fit if this one is to fit."""
    schema_path, path, part = location.schema_path, location.path, location.value
    if "$ref" in schema:
        yield FaultLocation(from_fragment(str(schema["$ref"])[1:]), path, part)
    for index in range(_count(schema, "allOf")):
        yield FaultLocation(f"{schema_path}/allOf/{index}", path, part)
    if isinstance(part, dict):
        properties = cast("dict[str, object]", schema.get("properties", {}))
        for name, inner in cast("dict[str, object]", part).items():
            if name in properties:
                yield FaultLocation(f"{schema_path}/properties/{escape(name)}", f"{path}/{escape(name)}", inner)
    if isinstance(part, list):
        prefix = _count(schema, "prefixItems")
        for index, inner in enumerate(cast("list[object]", part)):
            keyword = f"prefixItems/{index}" if index < prefix else "items"
            if index < prefix or "items" in schema:
                yield FaultLocation(f"{schema_path}/{keyword}", f"{path}/{index}", inner)


def _intended_alternative(schema: dict[str, object], location: FaultLocation, fits: Fits) -> FaultLocation | None:
    """The only alternative whose constants match the value; None if there are none or several, or if one fits."""
    for keyword in ("oneOf", "anyOf"):
        locations = [
            FaultLocation(f"{location.schema_path}/{keyword}/{index}", location.path, location.value)
            for index in range(_count(schema, keyword))
        ]
        if not locations or any(fits(candidate) for candidate in locations):
            continue
        branches = cast("list[Subschema]", schema[keyword])
        matching = [
            candidate
            for candidate, branch in zip(locations, branches, strict=True)
            if _has_constants(branch, location.value)
        ]
        if len(matching) == 1:
            return matching[0]
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
    members = cast("dict[str, object]", part)
    return all(name in members and members[name] == constant for name, constant in constants.items())


def _count(schema: dict[str, object], keyword: str) -> int:
    return len(cast("list[object]", schema.get(keyword, [])))
