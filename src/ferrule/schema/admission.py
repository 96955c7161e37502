"""The door for schemas: what comes out is JSON Schema 2020-12, local, bounded in every direction and safe to compile.

Everything that compiles or runs a schema relies on it having passed here. Must not know the validator or any target.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from ferrule.errors import SchemaError
from ferrule.schema.expansion import check_expansion
from ferrule.schema.metaschema import check_schema
from ferrule.schema.patterns import pattern_size
from ferrule.schema.pointer import escape
from ferrule.schema.refs import Outline, outline
from ferrule.schema.satisfiability import check_possible
from ferrule.schema.value_size import measure


@dataclass(frozen=True, slots=True)
class Limits:
    """How large a schema may be. The defaults hold every tool schema seen in use and stop the known attacks."""

    max_bytes: int = 65_536
    max_depth: int = 32
    """Subschemas inside subschemas, and schemas that references bring to bear on one value."""
    max_subschemas: int = 2_000
    """Counted with every reference followed."""
    max_enum: int = 1_000
    max_properties: int = 500
    max_pattern_length: int = 512
    max_pattern_size: int = 10_000
    """The sum over all patterns with their repetitions written out; a plain character is 1, a Unicode class 100."""


DEFAULT_LIMITS = Limits()
_EVERYTHING: dict[str, object] = {}
_NOTHING: dict[str, object] = {"not": {}}
# JSON nests deeper than subschemas do: {"properties": {"a": ...}} is two levels for one.
_JSON_LEVELS_PER_SUBSCHEMA = 3


def admit(schema: object, limits: Limits = DEFAULT_LIMITS) -> dict[str, object]:
    """The schema as 2020-12, sharing nothing with what was given; `SchemaError` says why it was refused.

    Every `$ref` in the result is `#` or `#/...` and leads to a schema.
    `true` and `false` come back as `{}` and `{"not": {}}`.
    """
    check_schema(schema, "")
    if isinstance(schema, bool):
        return dict(_EVERYTHING if schema else _NOTHING)
    json_depth = (limits.max_depth + 1) * _JSON_LEVELS_PER_SUBSCHEMA
    measure(schema, max_bytes=limits.max_bytes, max_depth=json_depth)
    outlined = outline(cast("dict[str, object]", schema), max_depth=limits.max_depth)
    _check_sizes(outlined, limits)
    check_expansion(outlined, max_subschemas=limits.max_subschemas, max_depth=limits.max_depth)
    check_possible(outlined)
    return cast("dict[str, object]", outlined.root)


def _check_sizes(schema: Outline, limits: Limits) -> None:
    pattern_budget = limits.max_pattern_size
    for place, node in schema.nodes.items():
        if isinstance(node, bool):
            continue
        path = schema.was_at[place]
        _refuse_long(node, "enum", "enum_too_large", limits.max_enum, path)
        _refuse_long(node, "properties", "too_many_properties", limits.max_properties, path)
        for pattern, at in _patterns(node, path):
            size = pattern_size(pattern, at, max_length=limits.max_pattern_length, max_size=limits.max_pattern_size)
            pattern_budget -= size
            if pattern_budget < 0:
                raise SchemaError(
                    f"the patterns together, with repetitions written out, are larger than {limits.max_pattern_size}",
                    code="pattern_too_large",
                    path=at,
                    hint="Use fewer patterns or smaller repetition counts.",
                )


def _patterns(node: dict[str, object], path: str) -> list[tuple[str, str]]:
    own = [(cast(str, node["pattern"]), f"{path}/pattern")] if "pattern" in node else []
    by_name = cast("dict[str, object]", node.get("patternProperties", {}))
    return own + [(pattern, f"{path}/patternProperties/{escape(pattern)}") for pattern in by_name]


def _refuse_long(node: dict[str, object], keyword: str, code: str, limit: int, path: str) -> None:
    held = cast("dict[str, object] | list[object]", node.get(keyword, []))
    if len(held) > limit:
        raise SchemaError(
            f"{keyword} has {len(held)} entries, more than {limit}",
            code=code,
            path=f"{path}/{keyword}",
            hint="Shorten the list, or take a plain string and check it in the tool.",
        )
