"""Admit a schema: validate an untrusted schema and rewrite it as JSON Schema 2020-12 that is safe to compile.

An admitted schema has only local references and is bounded in every dimension. Everything that compiles or runs a
schema relies on admission. This module does not depend on the validator or on any target.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias, cast

from ferrule.errors import SchemaError
from ferrule.schema.keywords import children
from ferrule.schema.metaschema import check_schema
from ferrule.schema.patterns import pattern_size
from ferrule.schema.pointer import escape, from_fragment, pointer_to
from ferrule.schema.refs import Outline, outline
from ferrule.schema.value_decoder import type_name
from ferrule.schema.value_size import measure

# Limit the size of a schema with its references followed, and refuse references that never end.
#
# The check uses two graphs over the subschemas. The first has the schemas that apply to the same value: it must have
# no cycle, or checking a value would never end. The second has all schemas that apply at all: its cycles are
# recursion, and count once. Each subschema is weighed once, so a schema that doubles a thousand times costs a
# thousand steps. This module does not depend on the meaning of keywords.

_Graph: TypeAlias = Mapping[str, tuple[str, ...]]


def check_expansion(schema: Outline, *, max_subschemas: int, max_depth: int) -> None:
    """Refuse reference cycles on the same value, and expansions over the limits."""
    same_value, all_applied = _graphs(schema)

    def refuse_cycle(pointer: str) -> int:
        raise SchemaError(
            "the reference leads back to itself and applies to the same value",
            code="ref_cycle",
            path=schema.original_pointers[pointer],
            hint="Let the recursion pass through properties or items, or remove the reference.",
        )

    def refuse_many(pointer: str) -> None:
        raise SchemaError(
            f"with its references followed, the schema has more than {max_subschemas} subschemas",
            code="too_many_subschemas",
            path=schema.original_pointers[pointer],
            hint="Use fewer or smaller shared definitions, or split the tool into several.",
        )

    def refuse_depth(pointer: str) -> None:
        raise SchemaError(
            f"with its references followed, more than {max_depth} schemas nest on one value",
            code="too_deep",
            path=schema.original_pointers[pointer],
            hint="Shorten the chain of references.",
        )

    if len(schema.nodes) > max_subschemas:
        refuse_many("")
    _weigh(same_value, tuple(schema.nodes), sum, max_subschemas, refuse_many, refuse_cycle)
    _weigh(same_value, tuple(schema.nodes), max, max_depth, refuse_depth, refuse_cycle)
    _weigh(all_applied, ("",), sum, max_subschemas, refuse_many, lambda _place: 1)


def _graphs(schema: Outline) -> tuple[_Graph, _Graph]:
    same_value: dict[str, tuple[str, ...]] = {}
    all_applied: dict[str, tuple[str, ...]] = {}
    for pointer, node in schema.nodes.items():
        if isinstance(node, bool):
            same_value[pointer] = all_applied[pointer] = ()
            continue
        inner = [(child.applies_to, pointer + pointer_to(child.tokens)) for child in children(node)]
        ref = (from_fragment(str(node["$ref"])[1:]),) if "$ref" in node else ()
        same_value[pointer] = ref + tuple(at for applies_to, at in inner if applies_to == "value")
        all_applied[pointer] = same_value[pointer] + tuple(at for applies_to, at in inner if applies_to == "part")
    return same_value, all_applied


def _weigh(
    graph: _Graph,
    starts: tuple[str, ...],
    combine: Callable[[list[int]], int],
    limit: int,
    refuse: Callable[[str], None],
    on_cycle: Callable[[str], int],
) -> None:
    """Compute for each subschema one plus the combined weights of its successors; iteratively, each one once."""
    weights: dict[str, int] = {}
    unfinished: set[str] = set()
    for start in starts:
        pending = [start]
        while pending:
            pointer = pending[-1]
            if pointer in weights:
                pending.pop()
                continue
            if pointer not in unfinished:
                unfinished.add(pointer)
                unvisited = [inner for inner in graph[pointer] if inner not in weights and inner not in unfinished]
                for inner in graph[pointer]:
                    if inner in unfinished:
                        on_cycle(pointer)
                pending.extend(unvisited)
                continue
            pending.pop()
            unfinished.discard(pointer)
            parts = [weights[inner] if inner in weights else on_cycle(pointer) for inner in graph[pointer]]
            weights[pointer] = 1 + combine([0, *parts])
            if weights[pointer] > limit:
                refuse(pointer)


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


@dataclass(frozen=True, slots=True)
class SchemaLimits:
    """How large a schema may be. The defaults allow every tool schema seen in practice and stop the known attacks."""

    max_bytes: int = 65_536
    max_depth: int = 32
    """Nesting of subschemas, and of schemas that references apply to one value."""
    max_subschemas: int = 2_000
    """Counted with all references followed."""
    max_enum: int = 1_000
    max_properties: int = 500
    max_pattern_length: int = 512
    max_pattern_size: int = 10_000
    """The sum over all patterns, with repetitions expanded. A plain character counts 1, a Unicode class 100."""


DEFAULT_LIMITS = SchemaLimits()
_ACCEPT_ALL: dict[str, object] = {}
_ACCEPT_NONE: dict[str, object] = {"not": {}}
# JSON nests deeper than subschemas: {"properties": {"a": ...}} is two levels of JSON for one subschema.
_JSON_LEVELS_PER_SUBSCHEMA = 3


def admit(schema: object, limits: SchemaLimits = DEFAULT_LIMITS) -> dict[str, object]:
    """Validate a schema and return it as 2020-12. The result shares no object with the input.

    Every `$ref` in the result is `#` or `#/...` and points to a schema. `true` and `false` become `{}` and
    `{"not": {}}`. Raises `SchemaError` with a code, a path and a hint if the schema is refused.
    """
    check_schema(schema, "")
    if isinstance(schema, bool):
        return dict(_ACCEPT_ALL if schema else _ACCEPT_NONE)
    json_depth = (limits.max_depth + 1) * _JSON_LEVELS_PER_SUBSCHEMA
    measure(schema, max_bytes=limits.max_bytes, max_depth=json_depth)
    document = outline(cast("dict[str, object]", schema), max_depth=limits.max_depth)
    _check_sizes(document, limits)
    check_expansion(document, max_subschemas=limits.max_subschemas, max_depth=limits.max_depth)
    check_satisfiable(document)
    return cast("dict[str, object]", document.root)


def _check_sizes(schema: Outline, limits: SchemaLimits) -> None:
    pattern_budget = limits.max_pattern_size
    for pointer, node in schema.nodes.items():
        if isinstance(node, bool):
            continue
        path = schema.original_pointers[pointer]
        _refuse_long(node, "enum", "enum_too_large", limits.max_enum, path)
        _refuse_long(node, "properties", "too_many_properties", limits.max_properties, path)
        for pattern, at in _patterns(node, path):
            size = pattern_size(pattern, at, max_length=limits.max_pattern_length, max_size=limits.max_pattern_size)
            pattern_budget -= size
            if pattern_budget < 0:
                raise SchemaError(
                    f"all patterns together, with repetitions expanded, are larger than {limits.max_pattern_size}",
                    code="pattern_too_large",
                    path=at,
                    hint="Use fewer patterns or smaller repetition counts.",
                )


def _patterns(node: dict[str, object], path: str) -> list[tuple[str, str]]:
    own = [(cast(str, node["pattern"]), f"{path}/pattern")] if "pattern" in node else []
    by_name = cast("dict[str, object]", node.get("patternProperties", {}))
    return own + [(pattern, f"{path}/patternProperties/{escape(pattern)}") for pattern in by_name]


def _refuse_long(node: dict[str, object], keyword: str, code: str, limit: int, path: str) -> None:
    entries = cast("dict[str, object] | list[object]", node.get(keyword, []))
    if len(entries) > limit:
        raise SchemaError(
            f"{keyword} has {len(entries)} entries, more than {limit}",
            code=code,
            path=f"{path}/{keyword}",
            hint="Shorten the list, or use a plain string and check it in the tool.",
        )
