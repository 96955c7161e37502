"""Check that some value can fit a schema, as far as its listed values and their types show.

A tool whose schema nothing fits can never be called, and its author should learn that before a model tries. Only parts
that every value must have are checked: a mistake in an optional part, or in one of several alternatives, does no harm.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from ferrule.errors import SchemaError
from ferrule.schema.pointer import from_fragment, pointer_to
from ferrule.schema.refs import Outline
from ferrule.schema.value_decoder import type_name


def check_satisfiable(schema: Outline) -> None:
    """Refuse a schema in which a required part lists values, and none of them has an allowed type."""
    visited: set[str] = set()
    pending = [""]
    while pending:
        pointer = pending.pop()
        node = schema.nodes.get(pointer)
        if pointer in visited or not isinstance(node, dict):
            continue
        visited.add(pointer)
        _check_values(node, schema.original_pointers[pointer])
        pending += _required_pointers(node, pointer)


def _required_pointers(node: dict[str, object], pointer: str) -> Iterator[str]:
    """Pointers to the schemas that some part of every value must fit."""
    if "$ref" in node:
        yield from_fragment(cast(str, node["$ref"])[1:])
    for number in range(len(cast("list[object]", node.get("allOf", ())))):
        yield pointer + pointer_to(("allOf", number))
    if _types(node) == {"object"}:
        for name in cast("list[str]", node.get("required", ())):
            yield pointer + pointer_to(("properties", name))
    if _types(node) == {"array"} and cast(float, node.get("minItems", 0)) > 0 and "prefixItems" not in node:
        yield f"{pointer}/items"


def _check_values(node: dict[str, object], path: str) -> None:
    types = _types(node)
    keyword = "const" if "const" in node else "enum"
    if not types or keyword not in node:
        return
    values = [node["const"]] if keyword == "const" else cast("list[object]", node["enum"])
    listed = dict.fromkeys(type_name(value) for value in values)
    if not types.isdisjoint(listed) or ("number" in types and "integer" in listed):
        return
    raise SchemaError(
        f"no value fits: {keyword} lists only {' and '.join(listed)}, and the type is {' or '.join(sorted(types))}",
        code="nothing_fits",
        path=f"{path}/{keyword}",
        hint="Set type to the type of the listed values. To restrict the items of an array, put the enum in its items.",
    )


def _types(node: dict[str, object]) -> set[str]:
    """The types that the schema itself names; empty if it names none."""
    named = node.get("type", ())
    return {named} if isinstance(named, str) else set(cast("list[str]", named))
