"""Relax a schema until a target's own JSON Schema compiler accepts it, and report everything that is lost.

llguidance refuses a whole grammar for one keyword that it does not support. `relax` removes such keywords one by one
and records the place of each, so that the rest stays enforced while decoding. The checker validates the removed ones
afterwards. The result may be wider than the original schema, never narrower. The schema must be admitted first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from ferrule.core.byte_cache import byte_cached, text_bytes
from ferrule.core.json_text import dumps, loads
from ferrule.core.tool import ToolDefinition
from ferrule.errors import DefinitionError
from ferrule.rules.compile_check import make_compilable
from ferrule.rules.integer_ranges import LOWER, UPPER
from ferrule.rules.keyword_filter import KeywordFilter, Loss
from ferrule.rules.lowering import MAX_COUNTED_LENGTH
from ferrule.rules.schema_merge import types_of
from ferrule.rules.simple_schemas import simple_form
from ferrule.schema.keywords import children
from ferrule.schema.object_members import additional_counts
from ferrule.schema.pointer import escape, pointer_to
from ferrule.schema.refs import local_target
from ferrule.schema.target_limits import LIMITS, Coverage, Limit
from ferrule.schema.value_decoder import types_allowed

_RAW_ENCODINGS = ("tagged", "typed tags")
_MEMBERS = ("properties", "patternProperties", "additionalProperties")
_ENFORCED_RAW = frozenset(
    {"type", "maxLength", "title", "description", "default", "examples", "$comment", "deprecated"}
)


@dataclass(frozen=True, slots=True)
class Relaxation:
    """A relaxed schema. `schema` compiles on the target; `losses` lists what the original has and `schema` lacks."""

    schema: dict[str, Any]
    losses: tuple[Loss, ...] = ()


def relax(schema: Mapping[str, Any], target: str = "llguidance") -> Relaxation:
    """Relax a schema for a target's own compiler."""
    if target != "llguidance":
        raise DefinitionError(
            f"target {target!r} has no JSON Schema compiler",
            hint="Use the target 'llguidance'; schemas for other targets are lowered.",
        )
    return _relax_text(dumps(schema))


# Measured: the text and the relaxed schema take up to three times the text.
@byte_cached(text_bytes(4))
def _relax_text(text: str) -> Relaxation:
    document = cast("dict[str, Any]", loads(text))
    if (simple := simple_form(document)) is not None:
        return Relaxation(simple)
    keyword_filter = KeywordFilter(document)
    filtered = keyword_filter.document()
    compilable, compile_losses = make_compilable(filtered, keyword_filter.original_path)
    return Relaxation(compilable, tuple(dict.fromkeys((*keyword_filter.losses, *compile_losses))))


def losses_of(tool: ToolDefinition, encoding: str = "JSON") -> tuple[Loss, ...]:
    """The keywords of a tool's schema that are not enforced while decoding, if arguments are written in `encoding`.

    JSON goes to llguidance's own compiler. Every other encoding is lowered, which enforces fewer keywords.
    """
    if encoding == "JSON":
        losses = relax(tool.parameters).losses
        removed = {loss.path for loss in losses}
        approximated = _losses_from_table(tool.parameters, "llguidance", {Coverage.APPROXIMATED})
        return (*losses, *(loss for loss in approximated if loss.path not in removed))
    losses = _losses_from_table(tool.parameters, "lowered", {Coverage.APPROXIMATED, Coverage.UNENFORCED})
    if not encoding.startswith(_RAW_ENCODINGS):
        return losses
    listed = {loss.path for loss in losses}
    return (*losses, *(loss for loss in _losses_of_raw_values(tool) if loss.path not in listed))


def _losses_of_raw_values(tool: ToolDefinition) -> Iterator[Loss]:
    """What is lost where an argument may be a string and is written without quotes: any text is then a string.

    Only its type, its greatest length and listed values are enforced.
    """
    members = (child for child in children(tool.parameters) if child.tokens[0] in _MEMBERS)
    for child in members:
        fields: dict[str, Any] = child.schema if isinstance(child.schema, dict) else {}
        if "string" not in types_allowed(fields, tool.parameters):
            continue
        for keyword in fields.keys() - _ENFORCED_RAW if not fields.keys() & {"enum", "const"} else ():
            place = f"{pointer_to(child.tokens)}/{escape(keyword)}"
            yield Loss(place, keyword, "the value is written raw, and any text is a string")


def _losses_from_table(schema: Mapping[str, Any], target: str, coverages: set[Coverage]) -> tuple[Loss, ...]:
    rows = {row.keyword: row for row in LIMITS[target] if row.coverage in coverages}
    unenforced = {row.keyword for row in LIMITS[target] if row.coverage is Coverage.UNENFORCED}
    losses: list[Loss] = []
    visited: set[int] = set()

    def walk(node: object, path: str) -> None:
        if not isinstance(node, dict) or id(cast(object, node)) in visited:
            return
        fields = cast("dict[str, Any]", node)
        visited.add(id(fields))
        for keyword, value in fields.items():
            row = _row(rows, keyword, value, fields)
            if row is not None:
                losses.append(Loss(f"{path}/{keyword}", keyword, row.detail))
        for child in children(fields):
            # Inside of a keyword that is not enforced at all, nothing more can be lost.
            if child.applies_to != "nothing" and child.tokens[0] not in unenforced:
                walk(child.schema, path + pointer_to(child.tokens))
        if "$ref" in fields:
            walk(local_target(fields["$ref"], schema), str(fields["$ref"])[1:])

    walk(schema, "")
    return tuple(losses)


def _row(rows: Mapping[str, Limit], keyword: str, value: Any, node: Mapping[str, Any]) -> Limit | None:
    """The table row of a keyword; None if the keyword has no effect here or no row."""
    if keyword == "format":
        return rows.get(f"format:{value}") or rows.get("format")
    if value is False and keyword == "uniqueItems":
        return None
    if keyword in ("maxLength", "minLength"):
        return rows.get(f"{keyword}, above {MAX_COUNTED_LENGTH}") if value > MAX_COUNTED_LENGTH else rows.get(keyword)
    if keyword in ("minProperties", "maxProperties") and additional_counts(node) == (0, None):
        return rows.get(f"{keyword}, some optional") or rows.get(keyword)
    if keyword == "additionalProperties" and "patternProperties" in node:
        return rows.get("additionalProperties, beside patterns") or rows.get(keyword)
    if keyword in (*LOWER, *UPPER) and "number" in types_of(node):
        return rows.get(f"{keyword}, of numbers") or rows.get(keyword)
    return rows.get(keyword)
