"""How much work it is to explain why a value does not fit: bounded counting, before the work is begun.

Saying whether a value fits is fast; listing why it does not can double with each level where recursive alternatives
meet a deep value. Must not know the validator or any message.
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
    """Whether pairing every part of the value with every schema that applies to it stays within a linear budget."""
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
        pending.extend(_inside(part))
    return count


def _inside(part: object) -> list[object]:
    if isinstance(part, list):
        return cast("list[object]", part)
    return [inner for _, inner in _named(part)]


def _named(part: object) -> list[tuple[str, object]]:
    return list(cast("dict[str, object]", part).items()) if isinstance(part, dict) else []


def _steps(schema: dict[str, object], part: object, root: Subschema) -> Iterator[_Step]:
    """Each schema with a part that it is applied to, or more: a count too high only shortens an explanation."""
    if "$ref" in schema:
        target = local_target(schema["$ref"], root)
        if target is not None:
            yield target, part
    # By the names that are there: a schema may know hundreds that are not.
    known = cast("dict[str, Subschema]", schema.get("properties", {}))
    yield from ((known[name], inner) for name, inner in _named(part) if name in known)
    others = {keyword: held for keyword, held in schema.items() if keyword != "properties"}
    for child in children(others):
        yield from ((child.schema, inner) for inner in _reached(child, part))


def _reached(child: Child, part: object) -> list[object]:
    keyword, key = child.tokens[0], child.tokens[-1]
    if child.reach != "below":
        return [part] if child.reach == "here" else []
    if keyword == "prefixItems":
        return _inside(part)[cast(int, key) : cast(int, key) + 1]
    takes_items = keyword in ("items", "contains", "unevaluatedItems")
    return _inside(part) if takes_items is isinstance(part, list) else []
