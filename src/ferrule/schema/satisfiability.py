"""Possible: whether any value fits a schema at all, as far as its listed values and their types tell.

A tool whose schema nothing fits can never be called, and who wrote it should hear so before a model tries. Only what
every value must have is looked at: a mistake in what may be left out, or in one of several alternatives, does no harm.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from ferrule.errors import SchemaError
from ferrule.schema.pointer import from_fragment, pointer_to
from ferrule.schema.refs import Outline
from ferrule.schema.value_decoder import type_name


def check_possible(schema: Outline) -> None:
    """Refuse a schema that lists values for something that must be there, none of them of a type allowed there."""
    seen: set[str] = set()
    waiting = [""]
    while waiting:
        place = waiting.pop()
        node = schema.nodes.get(place)
        if place in seen or not isinstance(node, dict):
            continue
        seen.add(place)
        _check_listed(node, schema.was_at[place])
        waiting += _needed(node, place)


def _needed(node: dict[str, object], place: str) -> Iterator[str]:
    """Places whose schema some part of every value must fit."""
    if "$ref" in node:
        yield from_fragment(cast(str, node["$ref"])[1:])
    for number in range(len(cast("list[object]", node.get("allOf", ())))):
        yield place + pointer_to(("allOf", number))
    if _types(node) == {"object"}:
        for name in cast("list[str]", node.get("required", ())):
            yield place + pointer_to(("properties", name))
    if _types(node) == {"array"} and cast(float, node.get("minItems", 0)) > 0 and "prefixItems" not in node:
        yield f"{place}/items"


def _check_listed(node: dict[str, object], path: str) -> None:
    types = _types(node)
    keyword = "const" if "const" in node else "enum"
    if not types or keyword not in node:
        return
    listed = [node["const"]] if keyword == "const" else cast("list[object]", node["enum"])
    found = dict.fromkeys(type_name(value) for value in listed)
    if not types.isdisjoint(found) or ("number" in types and "integer" in found):
        return
    raise SchemaError(
        f"no value fits: {keyword} lists {' and '.join(found)} only, and the type is {' or '.join(sorted(types))}",
        code="nothing_fits",
        path=f"{path}/{keyword}",
        hint="Let the type be that of the listed values; what the entries of a list may be is said in its items.",
    )


def _types(node: dict[str, object]) -> set[str]:
    """Those that the schema names itself; none where it names none."""
    named = node.get("type", ())
    return {named} if isinstance(named, str) else set(cast("list[str]", named))
