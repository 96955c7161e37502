"""Which keywords of a schema hold: for each a schema, the same without the keyword, and arguments that pull against it.

The same table is asked twice: with a call demanded and nothing else, and with the tool marked "strict" as well.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from ferrule.engines.doctor.client import Question
from ferrule.engines.doctor.elicitation import Lever
from ferrule.engines.doctor.observations import fits, unless_refused
from ferrule.engines.doctor.probe import Probe
from ferrule.engines.doctor.sample_tools import body_of, closed, tool

_WORD, _NUMBER = {"type": "string"}, {"type": "integer"}
_NUMBERS = {"type": "array", "items": _NUMBER}
_NAME = "set_value"


@dataclass(frozen=True, slots=True)
class Keyword:
    """`pulls` are arguments against the keyword, taken in turn; `free` is the schema that allows them."""

    name: str
    held: Mapping[str, Any]
    free: Mapping[str, Any]
    pulls: tuple[Mapping[str, Any], ...]
    keywords: Collection[str] = ()
    place: str = "/value"


def _value(name: str, held: Any, free: Any, *pulls: Any, keywords: Collection[str] = ()) -> Keyword:
    """A keyword about the one argument."""
    return Keyword(
        name,
        closed({"value": held}),
        closed({"value": free}),
        tuple({"value": pull} for pull in pulls),
        keywords or (name,),
    )


_INNER = {"value": _WORD, "unit": _WORD}
KEYWORDS = (
    _value("type", _NUMBER, _WORD, "seven", "a lot"),
    _value("enum", {**_WORD, "enum": ["red", "green"]}, _WORD, "purple", "orange"),
    Keyword(
        "required",
        closed(_INNER),
        closed(_INNER, required=["value"]),
        ({"value": "ten"}, {"value": "red"}),
        ("required",),
        "",
    ),
    Keyword(
        "additionalProperties",
        closed({"value": _WORD}),
        closed({"value": _WORD}, additionalProperties=True),
        ({"value": "ten", "color": "red"}, {"value": "red", "size": "large"}),
        ("additionalProperties",),
        "",
    ),
    _value(
        "minimum, maximum",
        {**_NUMBER, "minimum": 1, "maximum": 5},
        _NUMBER,
        *(9000, -70),
        keywords=("minimum", "maximum"),
    ),
    _value("maxLength", {**_WORD, "maxLength": 4}, _WORD, "elephant", "mountain"),
    _value("pattern", {**_WORD, "pattern": "^[a-c]{3}$"}, _WORD, "xyz", "house"),
    _value(
        "minItems, maxItems",
        {**_NUMBERS, "minItems": 2, "maxItems": 3},
        _NUMBERS,
        *([1, 2, 3, 4, 5], [7]),
        keywords=("minItems", "maxItems"),
    ),
    _value("uniqueItems", {**_NUMBERS, "uniqueItems": True, "maxItems": 4}, _NUMBERS, [7, 7, 7], [1, 1]),
    _value("anyOf", {"anyOf": [_NUMBER, {"type": "boolean"}]}, _WORD, "seven", "maybe"),
    _value(
        "nested object",
        closed({"inner": _NUMBER}),
        closed({"inner": _WORD}),
        *({"inner": "seven"}, {"inner": "north"}),
        keywords=("type", "required", "additionalProperties"),
    ),
)


def _question(lever: Lever, keyword: Keyword, schema: Mapping[str, Any], run: int, strict: bool) -> Question | None:
    said = lever.said((_NAME, keyword.pulls[run % len(keyword.pulls)]))
    offered = tool(_NAME, "Sets a value.", schema, strict=strict)
    return Question(body_of(said, [offered], tool_choice="required", max_tokens=64)) if said else None


def _probe(keyword: Keyword, strict: bool) -> Probe:
    def asked(lever: Lever, run: int) -> list[Question | None]:
        return [_question(lever, keyword, keyword.held, run, strict)]

    def without(lever: Lever, run: int) -> list[Question | None]:
        # Never strict: how strongly the model is pulled is the same, and the answers serve both times.
        return [_question(lever, keyword, keyword.free, run, False)]

    return Probe(
        name=f"{'strict' if strict else 'schema'}: {keyword.name}",
        asked=asked,
        without=without,
        seen=unless_refused(fits(keyword.held, keyword.place, keyword.keywords)),
    )


SCHEMA_PROBES = tuple(_probe(keyword, strict) for strict in (False, True) for keyword in KEYWORDS)
