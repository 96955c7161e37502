"""How large a schema becomes when its references are followed, and whether following them ever ends.

Two graphs over the places of a schema: what is applied to the same value (it must have no cycle, or a value would be
checked for ever), and everything that is applied at all (cycles are recursion, and counted once). Each place is weighed
once, so a schema that doubles a thousand times costs a thousand steps. Must not know what a keyword means.
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
    """Refuse reference cycles that pass no value, and expansions over the limits."""
    here, applied = _graphs(schema)

    def refuse_cycle(place: str) -> int:
        raise SchemaError(
            "the reference leads back to itself without looking at any part of the value",
            code="ref_cycle",
            path=schema.was_at[place],
            hint="Let the recursion pass through properties or items, or remove the reference.",
        )

    def refuse_many(place: str) -> None:
        raise SchemaError(
            f"with its references followed, the schema has more than {max_subschemas} subschemas",
            code="too_many_subschemas",
            path=schema.was_at[place],
            hint="Use fewer or smaller shared definitions, or split the tool into several.",
        )

    def refuse_depth(place: str) -> None:
        raise SchemaError(
            f"with its references followed, more than {max_depth} schemas nest on one value",
            code="too_deep",
            path=schema.was_at[place],
            hint="Shorten the chain of references.",
        )

    if len(schema.nodes) > max_subschemas:
        refuse_many("")
    _weigh(here, tuple(schema.nodes), sum, max_subschemas, refuse_many, refuse_cycle)
    _weigh(here, tuple(schema.nodes), max, max_depth, refuse_depth, refuse_cycle)
    _weigh(applied, ("",), sum, max_subschemas, refuse_many, lambda _place: 1)


def _graphs(schema: Outline) -> tuple[_Graph, _Graph]:
    here: dict[str, tuple[str, ...]] = {}
    applied: dict[str, tuple[str, ...]] = {}
    for place, node in schema.nodes.items():
        if isinstance(node, bool):
            here[place] = applied[place] = ()
            continue
        inner = [(child.reach, place + pointer_to(child.tokens)) for child in children(node)]
        ref = (from_fragment(str(node["$ref"])[1:]),) if "$ref" in node else ()
        here[place] = ref + tuple(at for reach, at in inner if reach == "here")
        applied[place] = here[place] + tuple(at for reach, at in inner if reach == "below")
    return here, applied


def _weigh(
    graph: _Graph,
    starts: tuple[str, ...],
    combine: Callable[[list[int]], int],
    limit: int,
    refuse: Callable[[str], None],
    on_cycle: Callable[[str], int],
) -> None:
    """One more than the combined weights of what each place leads to; each place once, without recursion."""
    weights: dict[str, int] = {}
    open_places: set[str] = set()
    for start in starts:
        pending = [start]
        while pending:
            place = pending[-1]
            if place in weights:
                pending.pop()
                continue
            if place not in open_places:
                open_places.add(place)
                waiting = [inner for inner in graph[place] if inner not in weights and inner not in open_places]
                for inner in graph[place]:
                    if inner in open_places:
                        on_cycle(place)
                pending.extend(waiting)
                continue
            pending.pop()
            open_places.discard(place)
            parts = [weights[inner] if inner in weights else on_cycle(place) for inner in graph[place]]
            weights[place] = 1 + combine([0, *parts])
            if weights[place] > limit:
                refuse(place)
