"""A schema that is called plain is one that the compiler takes: asked, about every one that can be made up."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ferrule.rules.closed_objects import closed
from ferrule.rules.matcher import schema_error
from ferrule.rules.simple_schemas import is_plain
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
def test_a_plain_schema_compiles_open_or_closed(schema: dict[str, Any]) -> None:
    if is_plain(schema):
        assert not schema_error(schema)
        assert not schema_error(closed(schema))


def test_what_most_tools_say_is_plain() -> None:
    city = {"type": "string", "description": "a city"}
    assert is_plain({"type": "object", "properties": {"city": city, "days": {"type": "integer"}}, "required": ["city"]})


def test_what_may_be_refused_is_not() -> None:
    for schema in (
        {},
        True,
        {"type": "string", "pattern": "a"},
        {"type": ["string", "null"]},
        {"type": "string", "enum": [1]},
    ):
        assert not is_plain(schema)
