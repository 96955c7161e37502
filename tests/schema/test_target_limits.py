from typing import Any

import pytest

from ferrule.rules.gbnf import emit_gbnf
from ferrule.rules.lark import emit_lark
from ferrule.rules.matcher import ByteMatcher
from ferrule.rules.relaxation import relax
from ferrule.rules.rule import Rule, Value
from ferrule.schema.admission import admit
from ferrule.schema.checker import Checker
from ferrule.schema.keywords import SUBSCHEMA_KEYWORDS
from ferrule.schema.target_limits import CHECKED_FORMATS, HINTS, LIMITS, Coverage, Limit
from rules.gbnf_acceptor import Acceptor

# Ferrule's own lowering, emitted for llama.cpp; test_target_limits_oracle tests the same rows with xgrammar.
LOWERED = [pytest.param(row, id=row.keyword) for row in LIMITS["lowered"]]
ROWS = [pytest.param(target, row, id=f"{target}-{row.keyword}") for target, rows in LIMITS.items() for row in rows]
# Keywords of the 2020-12 validation and applicator vocabularies that contain no subschema.
VALIDATING = [
    "type",
    "enum",
    "const",
    "multipleOf",
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "pattern",
    "maxItems",
    "minItems",
    "uniqueItems",
    "maxContains",
    "minContains",
    "maxProperties",
    "minProperties",
    "required",
    "dependentRequired",
    "$ref",
]
NOT_APPLIED = {"$defs", "contentSchema"}


def matcher_of(target: str, schema: dict[str, Any]) -> ByteMatcher:
    if target == "llguidance":
        relaxed = relax(schema).schema
        return ByteMatcher(emit_lark(Rule(Value(relaxed, relaxed))))
    # A value whose schema is not the whole document is lowered.
    return ByteMatcher(emit_lark(Rule(Value(schema, dict(schema)))))


def acceptor_of(schema: dict[str, Any]) -> Acceptor:
    return Acceptor(emit_gbnf(Rule(Value(schema, schema))).text)


def fits(row: Limit, text: str) -> bool:
    return not Checker(admit(dict(row.example_schema))).faults_of_text(text)


@pytest.mark.parametrize("target, row", ROWS)
def test_the_matcher_does_what_the_row_says(target: str, row: Limit) -> None:
    matcher = matcher_of(target, admit(dict(row.example_schema)))
    for text in (*row.accepts, *row.false_accepts):
        match = matcher.match(text)
        assert match.is_complete, f"{text} is refused after {match.characters} characters"
    for text in (*row.rejects, *row.false_rejects):
        assert not matcher.accepts(text), f"{text} is admitted"


@pytest.mark.parametrize("row", LOWERED)
def test_a_lowered_row_holds_in_gbnf_too(row: Limit) -> None:
    acceptor = acceptor_of(admit(dict(row.example_schema)))
    for text in (*row.accepts, *row.false_accepts):
        assert acceptor.accepts(text), f"{text} is refused after {acceptor.accepted_length(text)} characters"
    for text in (*row.rejects, *row.false_rejects):
        assert not acceptor.accepts(text), f"{text} is admitted"


@pytest.mark.parametrize("target, row", ROWS)
def test_the_texts_of_a_row_are_what_they_are_listed_as(target: str, row: Limit) -> None:
    for text in (*row.accepts, *row.false_rejects):
        assert fits(row, text), text
    for text in (*row.rejects, *row.false_accepts):
        assert not fits(row, text), text


@pytest.mark.parametrize("target, row", ROWS)
def test_a_row_proves_its_claim(target: str, row: Limit) -> None:
    assert row.accepts
    if row.coverage is Coverage.ENFORCED:
        assert row.rejects or row.false_rejects
        assert not row.false_accepts
    else:
        assert not row.rejects
        assert row.false_accepts or row.keyword == "property names, twice"


@pytest.mark.parametrize("target", LIMITS)
def test_every_keyword_and_checked_format_has_a_row(target: str) -> None:
    listed = {row.keyword for row in LIMITS[target]}
    expected = {*VALIDATING, *SUBSCHEMA_KEYWORDS, *(f"format:{name}" for name in CHECKED_FORMATS)} - NOT_APPLIED
    assert not expected - listed


@pytest.mark.parametrize("target", LIMITS)
def test_a_keyword_has_one_row(target: str) -> None:
    listed = [row.keyword for row in LIMITS[target]]
    assert len(listed) == len(set(listed))


def test_hints_are_for_keywords_that_exist() -> None:
    assert not HINTS.keys() - {*VALIDATING, *SUBSCHEMA_KEYWORDS, "format"}


@pytest.mark.parametrize("name", sorted(CHECKED_FORMATS))
def test_a_checked_format_is_checked(name: str) -> None:
    assert Checker(admit({"type": "string", "format": name})).faults("( not one")


def test_the_same_name_twice_is_admitted_everywhere_and_read_once() -> None:
    for target in LIMITS:
        assert matcher_of(target, {"type": "object"}).accepts('{"a": 1, "a": 2}')
    assert acceptor_of({"type": "object"}).accepts('{"a": 1, "a": 2}')
