"""A schema that no value fits is refused on admission, before a model tries to call the tool."""

from typing import Any

import pytest

from ferrule import SchemaError
from ferrule.schema.admission import admit

DAYS = {"type": "array", "enum": ["Monday", "Tuesday"]}
LATER = {"type": "string", "enum": ["a"]}


def object_schema(inner: object, *, required: bool = True) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": inner}, "required": ["a"] if required else []}


def test_an_enum_of_strings_beside_type_array_is_refused_with_a_hint() -> None:
    with pytest.raises(SchemaError, match="enum lists only string, and the type is array") as refusal:
        admit(object_schema(DAYS))
    assert refusal.value.code == "nothing_fits"
    assert refusal.value.path == "/properties/a/enum"
    assert "put the enum in its items" in str(refusal.value.hint)


@pytest.mark.parametrize(
    "schema",
    [
        object_schema(object_schema({"type": "integer", "const": "1"})),
        {**object_schema({"$ref": "#/$defs/days"}), "$defs": {"days": DAYS}},
        object_schema({"allOf": [{"description": "when"}, DAYS]}),
        object_schema({"type": "array", "items": {"type": "number", "enum": ["1"]}, "minItems": 1}),
        object_schema({"type": ["integer", "null"], "enum": ["low", "high"]}),
    ],
)
def test_a_contradiction_in_a_required_part_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(SchemaError, match="no value fits"):
        admit(schema)


@pytest.mark.parametrize(
    "schema",
    [
        object_schema(DAYS, required=False),
        object_schema({"anyOf": [DAYS, LATER]}),
        object_schema({"type": "array", "items": DAYS}),
        object_schema({"type": "array", "prefixItems": [LATER], "items": DAYS, "minItems": 1}),
        object_schema({"type": ["object", "null"], "properties": {"b": DAYS}, "required": ["b"]}),
        object_schema({"type": "number", "enum": [1, 2]}),
        object_schema({"type": "integer", "enum": [1.0]}),
        object_schema({"type": "integer", "enum": ["one", 2]}),
        object_schema({"enum": ["one"]}),
        object_schema({"$ref": "#"}),
    ],
)
def test_a_contradiction_in_an_optional_part_is_allowed(schema: dict[str, Any]) -> None:
    assert admit(schema)
