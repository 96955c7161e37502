"""Every schema that counts as simple compiles: tested with the compiler on generated schemas."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ferrule.rules.closed_objects import close_objects
from ferrule.rules.keyword_filter import KeywordFilter
from ferrule.rules.matcher import schema_error
from ferrule.rules.simple_schemas import is_simple, simple_form
from rules.test_relaxation import schemas

bounds = st.integers(-5, 10_000)
texts = st.text(max_size=5)
leaves: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.builds(lambda low, high: {"type": "string", "minLength": low, "maxLength": high}, bounds, bounds),
    st.builds(lambda low, high: {"type": "integer", "minimum": low, "maximum": high}, bounds, bounds),
    st.builds(lambda low, high: {"type": "number", "minimum": low, "maximum": high}, bounds, bounds),
    st.builds(lambda values: {"type": "string", "enum": values}, st.lists(texts, max_size=3)),
    st.builds(lambda values: {"type": "integer", "enum": values}, st.lists(st.integers(), max_size=3)),
    st.sampled_from([{"type": "boolean"}, {"type": "null", "title": "nothing"}, {"type": "string"}]),
)
plain: st.SearchStrategy[dict[str, Any]] = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(lambda item, low: {"type": "array", "items": item, "minItems": low}, inner, st.integers(0, 4)),
        st.builds(
            lambda listed, count: {"type": "object", "properties": listed, "required": list(listed)[:count]},
            st.dictionaries(texts, inner, max_size=3),
            st.integers(0, 3),
        ),
    ),
    max_leaves=6,
)


@given(plain | schemas)
def test_a_simple_schema_compiles_open_or_closed(schema: dict[str, Any]) -> None:
    if is_simple(schema):
        assert not schema_error(schema)
        assert not schema_error(close_objects(schema))


def test_typical_tool_schemas_are_simple() -> None:
    city = {"type": "string", "description": "a city"}
    assert is_simple(
        {"type": "object", "properties": {"city": city, "days": {"type": "integer"}}, "required": ["city"]}
    )


def test_schemas_that_may_be_refused_are_not_simple() -> None:
    for schema in (
        {},
        True,
        {"type": "string", "pattern": "a"},
        {"type": ["string", "null"]},
        {"type": "string", "enum": [1]},
    ):
        assert not is_simple(schema)


anything = st.sampled_from([{}, {"description": "any value"}])
options = st.builds(lambda inner: {"anyOf": inner, "default": None}, st.lists(plain, min_size=1, max_size=3))
declared = st.builds(
    lambda listed, count, rest: {
        "type": "object",
        "properties": listed,
        "required": list(listed)[:count],
        "additionalProperties": rest,
    },
    st.dictionaries(texts, plain | anything | options, max_size=3),
    st.integers(0, 3),
    st.booleans(),
)


@given(declared | options)
def test_alternatives_and_any_values_compile_if_they_are_simple(schema: dict[str, Any]) -> None:
    if is_simple(schema):
        assert not schema_error(schema)
        assert not schema_error(close_objects(schema))


@given(plain | schemas | declared | options)
def test_the_form_of_a_simple_schema_is_what_the_filter_and_closing_make_of_it(schema: dict[str, Any]) -> None:
    if is_simple(schema):
        filtered = KeywordFilter(schema).document()
        assert simple_form(schema) == filtered
        assert simple_form(schema, closes=True) == close_objects(filtered)


def test_a_member_that_may_be_missing_or_null_is_simple() -> None:
    optional = {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None, "title": "City"}
    assert is_simple({"type": "object", "properties": {"city": optional, "other": {}}, "additionalProperties": False})
    assert not is_simple({"anyOf": [{"type": "string"}, {"pattern": "a"}]})
    assert not is_simple({"anyOf": [{"type": "string"}], "type": ["string", "null"]})
    assert not is_simple({"type": "object", "additionalProperties": {"type": "string"}})
