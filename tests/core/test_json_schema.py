"""The schema constructors: what they return is valid JSON Schema, and validators agree on it."""

from __future__ import annotations

from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from ferrule import JsonSchema
from ferrule.schema.admission import DEFAULT_LIMITS, admit
from ferrule.schema.checker import checker_for

Sample: TypeAlias = tuple[dict[str, Any], Any]
"""A schema and a value that fits it."""

descriptions = st.text(max_size=8)
scalars = st.one_of(
    st.builds(lambda text, value: (JsonSchema.string(text), value), descriptions, st.text(max_size=6)),
    st.builds(lambda text, value: (JsonSchema.integer(text), value), descriptions, st.integers()),
    st.builds(lambda text, value: (JsonSchema.number(text, minimum=0), value), descriptions, st.floats(0, 1e9)),
    st.builds(lambda text, value: (JsonSchema.boolean(text), value), descriptions, st.booleans()),
    st.lists(st.one_of(st.text(max_size=4), st.integers(2), st.none()), min_size=1, unique=True).map(
        lambda values: (JsonSchema.enum(values), values[-1])
    ),
)


def array_of(item: Sample) -> Sample:
    return JsonSchema.array(item[0], "some", maxItems=2), [item[1]] * 2


def object_of(members: dict[str, Sample]) -> Sample:
    schemas = {name: schema for name, (schema, _) in members.items()}
    schema = JsonSchema.object(schemas, required=members, additionalProperties=False)
    return schema, {name: value for name, (_, value) in members.items()}


nested = st.recursive(
    scalars,
    lambda inner: st.one_of(
        inner.map(array_of), st.dictionaries(st.text(max_size=5), inner, max_size=3).map(object_of)
    ),
    max_leaves=12,
)


@given(nested)
def test_helpers_nest_to_schemas_that_are_admitted_unchanged(sample: Sample) -> None:
    schema, _ = sample
    Draft202012Validator.check_schema(schema)
    assert admit(schema) == schema


@given(nested)
def test_two_validators_take_the_value_that_the_schema_was_made_for(sample: Sample) -> None:
    schema, value = sample
    assert Draft202012Validator(schema).is_valid(value)
    assert not checker_for(admit(schema)).faults(value)


@given(nested, st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=3), st.just([]), st.just({})))
def test_two_validators_agree_on_any_other_value(sample: Sample, value: Any) -> None:
    schema, _ = sample
    assert Draft202012Validator(schema).is_valid(value) is not bool(checker_for(admit(schema)).faults(value))


@pytest.mark.parametrize("depth", [1, 8, DEFAULT_LIMITS.max_depth // 2])
def test_objects_and_arrays_nest_deep(depth: int) -> None:
    schema, value = JsonSchema.boolean(), True
    for _ in range(depth):
        schema = JsonSchema.object({"in": JsonSchema.array(schema)}, required=["in"])
        value = {"in": [value]}
    Draft202012Validator.check_schema(schema)
    assert not checker_for(admit(schema)).faults(value)


@pytest.mark.parametrize(
    "values, type_name",
    [
        (["a", "b"], "string"),
        ([1, 2], "integer"),
        ([0.5], "number"),
        ([True], "boolean"),
        (["a", 1], None),
        (["a", None], None),
        ([True, 1], None),
    ],
)
def test_an_enum_states_its_type_where_its_values_share_one(values: list[Any], type_name: str | None) -> None:
    schema = JsonSchema.enum(values)
    assert schema["enum"] == values
    assert schema.get("type") == type_name


def test_helpers_and_schemas_written_by_hand_mix() -> None:
    by_hand = {"anyOf": [{"type": "null"}, JsonSchema.string(pattern="^a")]}
    schema = JsonSchema.object({"x": by_hand}, ["x"])
    assert not checker_for(admit(schema)).faults({"x": "ab"})
    assert checker_for(admit(schema)).faults({"x": "ba"})


def test_nothing_that_was_left_out_is_written() -> None:
    assert JsonSchema.string() == {"type": "string"}
    assert JsonSchema.object({}) == {"type": "object", "properties": {}}
