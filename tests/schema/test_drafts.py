from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.errors import SchemaError
from ferrule.schema.admission import admit
from ferrule.schema.checker import Checker

DRAFT_4, DRAFT_7 = "http://json-schema.org/draft-04/schema#", "http://json-schema.org/draft-07/schema#"

LEAVES_4 = st.sampled_from(
    [
        {"type": "integer", "minimum": 1, "exclusiveMinimum": True},
        {"type": "number", "maximum": 2, "exclusiveMaximum": True, "minimum": 0, "exclusiveMinimum": False},
        {"exclusiveMaximum": True},
        {"$ref": "#/definitions/word"},
        {"$ref": "#/definitions/word", "type": "integer"},
        {"$ref": "#/definitions/pair/items/0"},
        {"type": "null"},
    ]
)
SCHEMAS_4 = st.recursive(
    LEAVES_4,
    lambda inner: (
        st.builds(lambda a, b: {"items": [a, b], "additionalItems": False}, inner, inner)
        | st.builds(lambda a, b: {"items": [a], "additionalItems": b}, inner, inner)
        | st.builds(lambda a, b: {"items": a, "additionalItems": b}, inner, inner)
        | st.builds(lambda a: {"dependencies": {"a": ["b"], "b": a}}, inner)
        | st.builds(lambda a, b: {"properties": {"a": a}, "additionalProperties": b}, inner, inner)
    ),
    max_leaves=4,
)
VALUES = st.recursive(
    st.sampled_from([None, 0, 1, 1.5, 2, "w", "long word"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)


@given(SCHEMAS_4, VALUES)
def test_a_draft_4_schema_means_the_same_after_it_is_rewritten(schema: dict[str, Any], value: Any) -> None:
    whole = {
        "$schema": DRAFT_4,
        "id": "http://example.com/root",
        "definitions": {"word": {"type": "string", "maxLength": 4}, "pair": {"items": [{"type": "integer"}, {}]}},
        "allOf": [schema],
    }
    says_4 = jsonschema.Draft4Validator({**whole, "id": ""}).is_valid(value)
    assert (Checker(admit(whole)).faults(value) == ()) is says_4


@pytest.mark.parametrize(
    "old, new",
    [
        (
            {"definitions": {"a": {}}, "items": {"$ref": "#/definitions/a"}},
            {"$defs": {"a": {}}, "items": {"$ref": "#/$defs/a"}},
        ),
        ({"items": [{}, True]}, {"prefixItems": [{}, True]}),
        ({"items": [{}], "additionalItems": False}, {"prefixItems": [{}], "items": False}),
        ({"items": [], "additionalItems": {"type": "null"}}, {"items": {"type": "null"}}),
        ({"items": {}, "additionalItems": False}, {"items": {}}),
        ({"minimum": 3, "exclusiveMinimum": True}, {"exclusiveMinimum": 3}),
        ({"minimum": 3, "exclusiveMinimum": False}, {"minimum": 3}),
        ({"maximum": 3, "exclusiveMaximum": True}, {"exclusiveMaximum": 3}),
        ({"exclusiveMinimum": 3}, {"exclusiveMinimum": 3}),
        (
            {"dependencies": {"a": ["b"], "c": {"required": ["d"]}}},
            {"dependentRequired": {"a": ["b"]}, "dependentSchemas": {"c": {"required": ["d"]}}},
        ),
        ({"type": "string", "nullable": True}, {"type": ["string", "null"]}),
        ({"type": ["string", "integer"], "nullable": True}, {"type": ["string", "integer", "null"]}),
        ({"type": "string", "nullable": False}, {"type": "string"}),
        ({"nullable": True, "minimum": 1}, {"minimum": 1}),
        ({"type": "any"}, {}),
        ({"type": ["any", "null"]}, {}),
        ({"$schema": DRAFT_7, "$id": "http://example.com/s"}, {}),
        ({"id": "just a note"}, {}),
        ({"properties": {"a": {"$id": "#/properties/a", "type": "string"}}}, {"properties": {"a": {"type": "string"}}}),
        ({"$dynamicAnchor": "node", "type": "object"}, {"type": "object"}),
    ],
)
def test_old_spellings_are_rewritten(old: dict[str, object], new: dict[str, object]) -> None:
    assert admit(old) == new


def test_references_follow_what_was_moved() -> None:
    schema = {
        "definitions": {"pair": {"items": [{"type": "string"}], "additionalItems": {"type": "null"}}},
        "dependencies": {"x": {"type": "object"}},
        "properties": {
            "a": {"$ref": "#/definitions/pair/items/0"},
            "b": {"$ref": "#/definitions/pair/additionalItems"},
            "c": {"$ref": "#/dependencies/x"},
        },
    }
    properties = admit(schema)["properties"]
    assert properties == {
        "a": {"$ref": "#/$defs/pair/prefixItems/0"},
        "b": {"$ref": "#/$defs/pair/items"},
        "c": {"$ref": "#/dependentSchemas/x"},
    }


def test_definitions_and_defs_of_the_same_name_are_kept_apart() -> None:
    schema = {
        "definitions": {"a": {"type": "string"}},
        "$defs": {"a": {"type": "null"}},
        "anyOf": [{"$ref": "#/definitions/a"}, {"$ref": "#/$defs/a"}],
    }
    admitted = admit(schema)
    assert admitted["$defs"] == {"a": {"type": "null"}, "a_": {"type": "string"}}
    assert admitted["anyOf"] == [{"$ref": "#/$defs/a_"}, {"$ref": "#/$defs/a"}]


def test_beside_a_reference_draft_7_keeps_only_what_asserts_nothing() -> None:
    beside = {"$ref": "#/definitions/a", "description": "d", "type": "null"}
    schema = {"definitions": {"a": {}}, "properties": {"x": beside}}
    assert admit({"$schema": DRAFT_7, **schema})["properties"] == {"x": {"$ref": "#/$defs/a", "description": "d"}}
    assert admit(schema)["properties"] == {"x": {"$ref": "#/$defs/a", "description": "d", "type": "null"}}


def test_an_old_style_anchor_is_a_place_that_references_find() -> None:
    schema = {"$schema": DRAFT_7, "definitions": {"a": {"$id": "#here"}}, "items": {"$ref": "#here"}}
    assert admit(schema) == {"$defs": {"a": {}}, "items": {"$ref": "#/$defs/a"}}


@pytest.mark.parametrize(
    "schema, code, path",
    [
        ({"$schema": "http://json-schema.org/draft-03/schema#"}, "unknown_draft", "/$schema"),
        ({"$schema": 4}, "unknown_draft", "/$schema"),
        ({"items": {"$recursiveRef": "#"}}, "unsupported_keyword", "/items/$recursiveRef"),
        ({"items": {"$dynamicRef": "#a"}}, "unsupported_keyword", "/items/$dynamicRef"),
        ({"definitions": []}, "not_a_schema", "/definitions"),
        ({"items": [{}], "prefixItems": [{}]}, "not_a_schema", "/items"),
        ({"nullable": "yes"}, "not_a_schema", "/nullable"),
        ({"dependencies": {"a": []}, "dependentRequired": {"a": []}}, "not_a_schema", "/dependencies"),
        ({"items": [{}, {"type": "x"}]}, "not_a_schema", "/items/1/type"),
        ({"$id": 5}, "not_a_schema", "/$id"),
    ],
)
def test_what_has_no_2020_12_meaning_is_refused(schema: object, code: str, path: str) -> None:
    with pytest.raises(SchemaError) as refused:
        admit(schema)
    assert (refused.value.code, refused.value.path) == (code, path)
