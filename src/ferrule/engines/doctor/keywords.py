"""Probes for schema keywords: for each a schema, the schema without the keyword, and arguments that violate it.

The table is used twice: with a required call only, and with the tool marked "strict" as well.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from ferrule.engines.doctor.client import ProbeRequest
from ferrule.engines.doctor.elicitation import CallElicitation
from ferrule.engines.doctor.observations import arguments_fit, unless_refused
from ferrule.engines.doctor.probe import Probe
from ferrule.engines.doctor.sample_tools import closed_object, request_body, tool

_STRING, _NUMBER = {"type": "string"}, {"type": "integer"}
_NUMBERS = {"type": "array", "items": _NUMBER}
_NAME = "set_value"


@dataclass(frozen=True, slots=True)
class Keyword:
    """`counterexamples` are arguments that violate the keyword, used in turn; `free_schema` allows them."""

    name: str
    schema: Mapping[str, Any]
    free_schema: Mapping[str, Any]
    counterexamples: tuple[Mapping[str, Any], ...]
    keywords: Collection[str] = ()
    path: str = "/value"


def _value_keyword(
    name: str, schema: Any, free_schema: Any, *counterexamples: Any, keywords: Collection[str] = ()
) -> Keyword:
    """A keyword that applies to the argument `value`."""
    return Keyword(
        name,
        closed_object({"value": schema}),
        closed_object({"value": free_schema}),
        tuple({"value": value} for value in counterexamples),
        keywords or (name,),
    )


_INNER = {"value": _STRING, "unit": _STRING}
KEYWORDS = (
    _value_keyword("type", _NUMBER, _STRING, "seven", "a lot"),
    _value_keyword("enum", {**_STRING, "enum": ["red", "green"]}, _STRING, "purple", "orange"),
    Keyword(
        "required",
        closed_object(_INNER),
        closed_object(_INNER, required=["value"]),
        ({"value": "ten"}, {"value": "red"}),
        ("required",),
        "",
    ),
    Keyword(
        "additionalProperties",
        closed_object({"value": _STRING}),
        closed_object({"value": _STRING}, additionalProperties=True),
        ({"value": "ten", "color": "red"}, {"value": "red", "size": "large"}),
        ("additionalProperties",),
        "",
    ),
    _value_keyword(
        "minimum, maximum",
        {**_NUMBER, "minimum": 1, "maximum": 5},
        _NUMBER,
        *(9000, -70),
        keywords=("minimum", "maximum"),
    ),
    _value_keyword("maxLength", {**_STRING, "maxLength": 4}, _STRING, "elephant", "mountain"),
    _value_keyword("pattern", {**_STRING, "pattern": "^[a-c]{3}$"}, _STRING, "xyz", "house"),
    _value_keyword(
        "minItems, maxItems",
        {**_NUMBERS, "minItems": 2, "maxItems": 3},
        _NUMBERS,
        *([1, 2, 3, 4, 5], [7]),
        keywords=("minItems", "maxItems"),
    ),
    _value_keyword("uniqueItems", {**_NUMBERS, "uniqueItems": True, "maxItems": 4}, _NUMBERS, [7, 7, 7], [1, 1]),
    _value_keyword("anyOf", {"anyOf": [_NUMBER, {"type": "boolean"}]}, _STRING, "seven", "maybe"),
    _value_keyword(
        "nested object",
        closed_object({"inner": _NUMBER}),
        closed_object({"inner": _STRING}),
        *({"inner": "seven"}, {"inner": "north"}),
        keywords=("type", "required", "additionalProperties"),
    ),
)


def _request(
    elicitation: CallElicitation, keyword: Keyword, schema: Mapping[str, Any], run: int, strict: bool
) -> ProbeRequest | None:
    messages = elicitation.messages((_NAME, keyword.counterexamples[run % len(keyword.counterexamples)]))
    tool_ = tool(_NAME, "Sets a value.", schema, strict=strict)
    return ProbeRequest(request_body(messages, [tool_], tool_choice="required", max_tokens=64)) if messages else None


def _probe(keyword: Keyword, strict: bool) -> Probe:
    def requests(elicitation: CallElicitation, run: int) -> list[ProbeRequest | None]:
        return [_request(elicitation, keyword, keyword.schema, run, strict)]

    def control(elicitation: CallElicitation, run: int) -> list[ProbeRequest | None]:
        # Never strict: the prompt is the same, so these responses serve both probes.
        return [_request(elicitation, keyword, keyword.free_schema, run, False)]

    return Probe(
        name=f"{'strict' if strict else 'schema'}: {keyword.name}",
        requests=requests,
        control=control,
        observe=unless_refused(arguments_fit(keyword.schema, keyword.path, keyword.keywords)),
    )


SCHEMA_PROBES = tuple(_probe(keyword, strict) for strict in (False, True) for keyword in KEYWORDS)
