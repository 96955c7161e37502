"""Estimate the work of explaining why a value does not fit, before the work is done.

To decide whether a value fits is fast. To list the reasons why it does not can double the work with each level, if
recursive alternatives meet a deep value. This module does not depend on the validator or on messages.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias, cast

from ferrule.schema.keywords import Child, Subschema, children
from ferrule.schema.refs import local_target

_BASE = 5_000
_PER_PART = 8

_Step: TypeAlias = tuple[Subschema, object]


def is_explainable(schema: Subschema, value: object, root: Subschema) -> bool:
    """Whether the number of pairs (part of the value, schema that applies to it) stays within a linear budget."""
    budget = _BASE + _PER_PART * _parts(value)
    pending: list[_Step] = [(schema, value)]
    while pending:
        inner, part = pending.pop()
        for step in _steps(inner, part, root) if isinstance(inner, dict) else ():
            pending.append(step)
            budget -= 1
            if budget < 0:
                return False
    return True


def _parts(value: object) -> int:
    count = 0
    pending = [value]
    while pending:
        part = pending.pop()
        count += 1
        pending.extend(_children(part))
    return count


def _children(part: object) -> list[object]:
    if isinstance(part, list):
        return cast("list[object]", part)
    return [inner for _, inner in _members(part)]


def _members(part: object) -> list[tuple[str, object]]:
    return list(cast("dict[str, object]", part).items()) if isinstance(part, dict) else []


def _steps(schema: dict[str, object], part: object, root: Subschema) -> Iterator[_Step]:
    """Each subschema with a part that it applies to. Too many pairs do no harm: they only shorten an explanation."""
    if "$ref" in schema:
        target = local_target(schema["$ref"], root)
        if target is not None:
            yield target, part
    # Iterate over the value's names: a schema may list hundreds that the value does not have.
    properties = cast("dict[str, Subschema]", schema.get("properties", {}))
    yield from ((properties[name], inner) for name, inner in _members(part) if name in properties)
    others = {keyword: value for keyword, value in schema.items() if keyword != "properties"}
    for child in children(others):
        yield from ((child.schema, inner) for inner in _applicable_parts(child, part))


def _applicable_parts(child: Child, part: object) -> list[object]:
    keyword, key = child.tokens[0], child.tokens[-1]
    if child.applies_to != "part":
        return [part] if child.applies_to == "value" else []
    if keyword == "prefixItems":
        return _children(part)[cast(int, key) : cast(int, key) + 1]
    takes_items = keyword in ("items", "contains", "unevaluatedItems")
    return _children(part) if takes_items is isinstance(part, list) else []
