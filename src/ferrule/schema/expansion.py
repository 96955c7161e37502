"""Limit the size of a schema with its references followed, and refuse references that never end.

The check uses two graphs over the subschemas. The first has the schemas that apply to the same value: it must have no
cycle, or checking a value would never end. The second has all schemas that apply at all: its cycles are recursion, and
count once. Each subschema is weighed once, so a schema that doubles a thousand times costs a thousand steps. This
module does not depend on the meaning of keywords.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from ferrule.errors import SchemaError
from ferrule.schema.keywords import children
from ferrule.schema.pointer import from_fragment, pointer_to
from ferrule.schema.refs import Outline

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
