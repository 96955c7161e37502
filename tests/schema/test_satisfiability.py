"""A schema that nothing fits is refused where it is first seen, and not by a call that could not be right."""

from typing import Any

import pytest

from ferrule import SchemaError
from ferrule.schema.admission import admit

DAYS = {"type": "array", "enum": ["Monday", "Tuesday"]}
LATER = {"type": "string", "enum": ["a"]}


def holding(inner: object, *, required: bool = True) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": inner}, "required": ["a"] if required else []}


def test_an_enum_of_texts_beside_the_type_array_is_told_where_it_belongs() -> None:
    with pytest.raises(SchemaError, match="enum lists string only, and the type is array") as refusal:
        admit(holding(DAYS))
    assert refusal.value.code == "nothing_fits"
    assert refusal.value.path == "/properties/a/enum"
    assert "said in its items" in str(refusal.value.hint)


@pytest.mark.parametrize(
    "schema",
    [
        holding(holding({"type": "integer", "const": "1"})),
        {**holding({"$ref": "#/$defs/days"}), "$defs": {"days": DAYS}},
        holding({"allOf": [{"description": "when"}, DAYS]}),
        holding({"type": "array", "items": {"type": "number", "enum": ["1"]}, "minItems": 1}),
        holding({"type": ["integer", "null"], "enum": ["low", "high"]}),
    ],
)
def test_it_is_found_wherever_every_value_must_have_it(schema: dict[str, Any]) -> None:
    with pytest.raises(SchemaError, match="no value fits"):
        admit(schema)


@pytest.mark.parametrize(
    "schema",
    [
        holding(DAYS, required=False),
        holding({"anyOf": [DAYS, LATER]}),
        holding({"type": "array", "items": DAYS}),
        holding({"type": "array", "prefixItems": [LATER], "items": DAYS, "minItems": 1}),
        holding({"type": ["object", "null"], "properties": {"b": DAYS}, "required": ["b"]}),
        holding({"type": "number", "enum": [1, 2]}),
        holding({"type": "integer", "enum": [1.0]}),
        holding({"type": "integer", "enum": ["one", 2]}),
        holding({"enum": ["one"]}),
        holding({"$ref": "#"}),
    ],
)
def test_what_may_be_left_out_or_chosen_otherwise_is_no_reason_to_refuse(schema: dict[str, Any]) -> None:
    assert admit(schema)
