"""Bounds for what a schema leaves open: derived from the budget, never wider, and without effect on bounded parts."""

from __future__ import annotations

from typing import Any

import jsonschema
from hypothesis import given
from hypothesis import strategies as st

from ferrule import ToolDefinition
from ferrule.core.json_text import dumps
from ferrule.schema.bounds import LARGEST, Bounds, apply_bounds, bounds_for, reaches_bounds

LEAVES = st.sampled_from(
    [
        {"type": "string"},
        {"type": "string", "minLength": 30},
        {"type": "string", "maxLength": 5},
        {"type": "integer"},
        {"enum": ["a", "b"]},
        {"type": "boolean"},
        {},
        {"type": "object"},
        {"type": ["string", "null"]},
    ]
)
SCHEMAS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        inner.map(lambda item: {"type": "array", "items": item}),
        st.dictionaries(st.sampled_from("abc"), inner, max_size=3).map(
            lambda members: {"type": "object", "properties": members, "required": sorted(members)}
        ),
        st.lists(inner, min_size=1, max_size=2).map(lambda options: {"anyOf": options}),
    ),
    max_leaves=6,
)
OBJECTS = st.dictionaries(st.sampled_from("abc"), SCHEMAS, max_size=3).map(
    lambda members: {"type": "object", "properties": members}
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-LARGEST, LARGEST) | st.text(max_size=80),
    lambda inner: st.lists(inner, max_size=12) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=12,
)


@given(OBJECTS, st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3))
def test_whatever_fits_the_bounded_schema_fits_the_schema(schema: dict[str, Any], value: dict[str, Any]) -> None:
    if _fits(value, apply_bounds(schema, Bounds(20, 4))):
        assert _fits(value, schema)


@given(OBJECTS, st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3))
def test_what_is_short_fits_both_alike(schema: dict[str, Any], value: dict[str, Any]) -> None:
    bounds = Bounds(10_000, 100)
    if _depth(value) <= 3:
        assert _fits(value, apply_bounds(schema, bounds)) == _fits(value, schema)


@given(OBJECTS, st.integers(64, 10_000), st.integers(1, 8))
def test_a_larger_budget_never_shortens_the_strings_of_one_call(schema: dict[str, Any], budget: int, more: int) -> None:
    tools = [ToolDefinition("f", "", schema)]
    small, large = (bounds_for(tools, size, 1) for size in (budget, budget * more))
    assert (small.items, small.characters) <= (large.items, 10**9)
    assert small.items < large.items or small.characters <= large.characters


@given(st.integers(200, 20_000))
def test_the_longest_call_that_the_bounds_allow_fits_in_the_budget(budget: int) -> None:
    schema = {
        "type": "object",
        "properties": {
            "title": {"type": "string"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "size": {"type": "integer"},
        },
    }
    bounds = bounds_for([ToolDefinition("f", "", schema)], budget, 1)
    longest = {"title": "x" * bounds.characters, "tags": ["x" * bounds.characters] * bounds.items, "size": 10**6}
    strings = bounds.characters * (1 + bounds.items)
    punctuation = len(dumps(longest)) - strings
    assert _fits(longest, apply_bounds(schema, bounds))
    assert strings + punctuation // 2 <= budget + 16


def test_what_the_schema_bounds_itself_is_left_alone() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "maxLength": 90_000}}}
    assert apply_bounds(schema, Bounds(20, 4)) == schema


def test_the_opposite_of_a_schema_is_never_bounded() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "boolean", "not": {"type": "string"}}}}
    assert apply_bounds(schema, Bounds(20, 4)) == schema


def test_an_open_whole_number_has_an_end_and_one_with_bounds_keeps_them() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer", "minimum": 0}}}
    bounded = apply_bounds(schema, Bounds(20, 4))["properties"]
    assert bounded["a"] == {"type": "integer", "minimum": -LARGEST, "maximum": LARGEST}
    assert bounded["b"] == {"type": "integer", "minimum": 0, "maximum": LARGEST}


def test_members_that_are_named_without_a_schema_are_the_only_ones() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "object", "required": ["x"]}}}
    bounded = apply_bounds(schema, Bounds(20, 4))
    assert _fits({"a": {"x": 1}}, bounded)
    assert not _fits({"a": {"x": 1, "y": 2}}, bounded)


def test_a_value_that_is_as_long_as_allowed_is_detected() -> None:
    assert reaches_bounds({"a": [{"b": "x" * 20}]}, Bounds(20, 4))
    assert reaches_bounds({"a": [1, 2, 3, 4]}, Bounds(20, 4))
    assert not reaches_bounds({"a": ["x" * 19, 1, 2]}, Bounds(20, 4))


def _fits(value: object, schema: dict[str, Any]) -> bool:
    validator: Any = jsonschema.Draft202012Validator(schema)
    return bool(validator.is_valid(value))


def _depth(value: object) -> int:
    match value:
        case list():
            return 1 + max(map(_depth, value), default=0)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        case dict():
            return 1 + max(map(_depth, value.values()), default=0)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        case _:
            return 0


@given(st.integers(64, 10_000), st.integers(1, 4))
def test_characters_that_take_several_tokens_make_strings_shorter(budget: int, tokens: int) -> None:
    tools = [ToolDefinition("f", "", {"type": "object", "properties": {"a": {"type": "string"}}})]
    one, many = (bounds_for(tools, budget, 1, tokens_per_character=each) for each in (1, tokens))
    assert many.characters <= max(16, one.characters // tokens)


@given(
    st.lists(
        st.sampled_from(
            [
                {"type": "string"},
                {"type": "string", "maxLength": 90},
                {"type": "null"},
                {"type": "integer"},
                {"enum": ["a" * 70, 1]},
                {"type": "array", "items": {"type": "string"}},
                {"type": ["string", "null"]},
                {},
            ]
        ),
        min_size=1,
        max_size=3,
    ),
    st.sampled_from(["anyOf", "oneOf"]),
)
def test_a_union_has_an_end_as_a_whole_for_where_its_values_are_written_raw(options: list[Any], keyword: str) -> None:
    bounds = Bounds(40, 4)
    bounded = apply_bounds({"type": "object", "properties": {"a": {keyword: options}}}, bounds)["properties"]["a"]
    lengths = [option.get("maxLength", 0) for option in bounded[keyword]]
    assert max(lengths) <= bounded["maxLength"]
    # The bound excludes none of the listed values.
    assert {"enum": ["a" * 70, 1]} not in options or bounded["maxLength"] >= 70
