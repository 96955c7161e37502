"""Widen: a schema as a target's own JSON Schema compiler takes it. Wider where it must be, never narrower, and told.

llguidance refuses a whole grammar for one keyword that it does not know. Here such keywords are taken out one by one,
each with its place, so that the rest stays enforced while decoding; what was taken out is left to the checker.
The schema must have been admitted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

from ferrule.core.json_text import dumps, loads
from ferrule.core.tool import ToolDefinition
from ferrule.errors import DefinitionError
from ferrule.rules.compile_check import compiled_away
from ferrule.rules.integer_ranges import LOWER, UPPER
from ferrule.rules.keyword_filter import Loss, Sieve
from ferrule.rules.lowering import MOST_COUNTED
from ferrule.rules.schema_merge import types_of
from ferrule.rules.simple_schemas import bare, is_plain
from ferrule.schema.keywords import children
from ferrule.schema.pointer import pointer_to
from ferrule.schema.refs import local_target
from ferrule.schema.target_limits import LIMITS, Limit, Say

_CACHED = 512


@dataclass(frozen=True, slots=True)
class Widened:
    """`schema` holds only what the target takes; `losses` is everything that is in the original and not in it."""

    schema: dict[str, Any]
    losses: tuple[Loss, ...] = ()


def widened(schema: Mapping[str, Any], target: str = "llguidance") -> Widened:
    """The schema for a target's own compiler."""
    if target != "llguidance":
        raise DefinitionError(
            f"{target!r} has no JSON Schema compiler that a schema is widened for",
            hint="The target is llguidance; every other one is given lowered nodes.",
        )
    return _widened(dumps(schema))


@lru_cache(maxsize=_CACHED)
def _widened(text: str) -> Widened:
    document = cast("dict[str, Any]", loads(text))
    if is_plain(document):
        return Widened(bare(document))
    sieve = Sieve(document)
    kept = sieve.document()
    final, more = compiled_away(kept, sieve.place_of)
    return Widened(final, tuple(dict.fromkeys((*sieve.losses, *more))))


def losses_of(tool: ToolDefinition, encoding: str = "JSON") -> tuple[Loss, ...]:
    """What the schema of a tool says and decoding does not enforce, where arguments are written in `encoding`.

    JSON goes to llguidance's own compiler; whatever is not JSON is lowered by us, which says less.
    """
    if encoding == "JSON":
        lost = widened(tool.parameters).losses
        taken_out = {loss.path for loss in lost}
        nearly = _by_table(tool.parameters, "llguidance", {Say.APPROXIMATED})
        return (*lost, *(loss for loss in nearly if loss.path not in taken_out))
    return _by_table(tool.parameters, "lowered", {Say.APPROXIMATED, Say.NOT_SAYABLE})


def _by_table(schema: Mapping[str, Any], target: str, said: set[Say]) -> tuple[Loss, ...]:
    rows = {row.keyword: row for row in LIMITS[target] if row.say in said}
    unsaid = {row.keyword for row in LIMITS[target] if row.say is Say.NOT_SAYABLE}
    losses: list[Loss] = []
    seen: set[int] = set()

    def walk(node: object, path: str) -> None:
        if not isinstance(node, dict) or id(cast(object, node)) in seen:
            return
        held = cast("dict[str, Any]", node)
        seen.add(id(held))
        for keyword, value in held.items():
            row = _row(rows, keyword, value, held)
            if row is not None:
                losses.append(Loss(f"{path}/{keyword}", keyword, row.how))
        for child in children(held):
            # Inside of what is not said at all, nothing more can be lost.
            if child.reach != "apart" and child.tokens[0] not in unsaid:
                walk(child.schema, path + pointer_to(child.tokens))
        if "$ref" in held:
            walk(local_target(held["$ref"], schema), str(held["$ref"])[1:])

    walk(schema, "")
    return tuple(losses)


def _row(rows: Mapping[str, Limit], keyword: str, value: Any, node: Mapping[str, Any]) -> Limit | None:
    """The row of a keyword that asks for something."""
    if keyword == "format":
        return rows.get(f"format:{value}") or rows.get("format")
    if value is False and keyword == "uniqueItems":
        return None
    if keyword in ("maxLength", "minLength"):
        return rows.get(f"{keyword}, above {MOST_COUNTED}") if value > MOST_COUNTED else rows.get(keyword)
    if keyword in (*LOWER, *UPPER) and "number" in types_of(node):
        return rows.get(f"{keyword}, of numbers") or rows.get(keyword)
    return rows.get(keyword)
