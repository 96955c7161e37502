"""Every keyword of a schema is in one list: enforced while decoding, checked afterwards, or not checked."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule import ToolDefinition
from ferrule.rules.claims import claims_of

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "tags": {"type": "array", "items": {"type": "string", "pattern": "^a"}, "uniqueItems": True},
        "when": {"type": "string", "format": "date"},
        "where": {"type": "string", "format": "planet"},
        "data": {"type": "string", "contentEncoding": "base64"},
        "size": {"type": "integer", "minimum": 1},
        "ratio": {"type": "number", "minimum": 1},
    },
    "required": ["tags"],
    "not": {"required": ["when", "where"]},
}
TOOL = ToolDefinition("f", "", SCHEMA)
ENCODINGS = ["JSON", "JSON, lowered", "Python", None]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_no_keyword_is_claimed_twice_and_none_is_forgotten(encoding: str | None) -> None:
    claims = claims_of(TOOL, encoding)
    together = [*claims.enforced, *claims.checked]
    assert sorted(together) == sorted(set(together))
    assert {*together} == {*claims_of(TOOL, None).checked}
    assert claims.unchecked == ("contentEncoding", "format:planet")


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_keywords_that_no_grammar_enforces_are_never_claimed_as_enforced(encoding: str | None) -> None:
    assert {"uniqueItems", "not"} <= {*claims_of(TOOL, encoding).checked}


def test_a_keyword_that_is_lost_in_one_place_is_claimed_in_none() -> None:
    assert "minimum" in claims_of(TOOL, "JSON").enforced
    assert "minimum" in claims_of(TOOL, "JSON, lowered").checked


def test_without_a_grammar_everything_is_checked_after() -> None:
    assert claims_of(TOOL, None).enforced == ()


@pytest.mark.parametrize("encoding", ["JSON", "JSON, lowered", "Python"])
@pytest.mark.parametrize(
    "around",
    [
        {"not": {"maximum": 5}},
        {"if": {"maximum": 5}, "then": {"minimum": 2}},
        {"anyOf": [{"not": {"allOf": [{"maximum": 5}]}}]},
        {"not": {"$ref": "#/$defs/small"}},
    ],
)
def test_a_keyword_inside_of_a_lost_one_is_lost_there_too(encoding: str, around: dict[str, Any]) -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "integer", **around}, "b": {"type": "integer", "maximum": 9}},
        "$defs": {"small": {"maximum": 5}},
    }
    claims = claims_of(ToolDefinition("f", "", schema), encoding)
    assert "maximum" in claims.checked
    assert "maximum" not in claims.enforced


@pytest.mark.parametrize("encoding", ["JSON", "JSON, lowered"])
@pytest.mark.parametrize("keyword", ["contains", "propertyNames"])
def test_what_contains_and_property_names_say_is_not_claimed(encoding: str, keyword: str) -> None:
    inner = {"type": "string", "minLength": 2, "maxLength": 4}
    holder = {"type": "array", "contains": inner} if keyword == "contains" else {"type": "object", keyword: inner}
    claims = claims_of(ToolDefinition("f", "", {"type": "object", "properties": {"a": holder}}), encoding)
    assert {keyword, "minLength", "maxLength"} <= {*claims.checked}
