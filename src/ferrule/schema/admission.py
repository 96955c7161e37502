"""Admit a schema: validate an untrusted schema and rewrite it as JSON Schema 2020-12 that is safe to compile.

An admitted schema has only local references and is bounded in every dimension. Everything that compiles or runs a
schema relies on admission. This module does not depend on the validator or on any target.
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
from ferrule.schema.satisfiability import check_satisfiable
from ferrule.schema.value_size import measure


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
