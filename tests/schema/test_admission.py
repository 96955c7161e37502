import copy
import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.errors import SchemaError
from ferrule.schema.admission import SchemaLimits, admit
from ferrule.schema.checker import Checker

KEYWORDS = [
    "type", "enum", "const", "$ref", "$anchor", "$defs", "definitions", "properties", "required", "items",
    "prefixItems", "additionalItems", "additionalProperties", "pattern", "patternProperties", "anyOf", "allOf", "oneOf",
    "not", "if", "minimum", "exclusiveMinimum", "multipleOf", "minLength", "maxItems", "uniqueItems", "dependencies",
    "format", "dependentRequired", "nullable", "$id", "description", "default", "examples", "contains", "x-other",
]  # fmt: skip
SCRAPS = st.sampled_from(
    [None, True, False, 0, -1, 2.0, 0.5, "", "string", "any", "#", "#/$defs/a", "#a", "^a{2}$", "(", "x", [], {}, ["a"]]
)
JUNK = st.recursive(
    SCRAPS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*KEYWORDS, "a", "b"]), inner, max_size=4)
    ),
    max_leaves=12,
)


def outcome_of(schema: object) -> dict[str, object] | SchemaError:
    try:
        return admit(schema)
    except SchemaError as refusal:
        return refusal


@given(st.dictionaries(st.sampled_from(KEYWORDS), JUNK, max_size=4))
def test_what_is_admitted_compiles_and_all_else_is_refused_with_a_reason(schema: dict[str, object]) -> None:
    before = copy.deepcopy(schema)
    outcome = outcome_of(schema)
    if isinstance(outcome, SchemaError):
        assert outcome.hint
        assert outcome.code not in ("", "bad_schema")
    else:
        Checker(outcome)
        assert admit(outcome) == outcome
    assert schema == before


@given(JUNK)
def test_nothing_but_a_schema_error_ever_comes_out(schema: object) -> None:
    assert isinstance(outcome_of(schema), dict | SchemaError)


PLAIN = st.recursive(
    st.sampled_from([{"type": "string"}, {"type": "integer", "minimum": 1}, {"enum": ["a", 1]}, True, {}]),
    lambda inner: (
        st.builds(lambda a, b: {"properties": {"a": a, "b": b}, "required": ["a"]}, inner, inner)
        | st.builds(lambda a: {"type": "array", "items": a}, inner)
        | st.builds(lambda a, b: {"anyOf": [a, b]}, inner, inner)
    ),
    max_leaves=6,
)
VALUES = st.recursive(
    st.sampled_from([None, 0, 1, "a", ""]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=6,
)


@given(PLAIN, VALUES)
def test_admission_does_not_change_what_fits(schema: dict[str, Any], value: Any) -> None:
    fits = jsonschema.Draft202012Validator(schema).is_valid(value)
    admitted = admit(schema)
    assert jsonschema.Draft202012Validator(admitted).is_valid(value) is fits
    assert (Checker(admitted).faults(value) == ()) is fits


def test_boolean_schemas_become_objects() -> None:
    assert admit(True) == {}
    assert admit(False) == {"not": {}}


def test_the_result_shares_nothing_with_the_original() -> None:
    schema = {"enum": [["a"]], "properties": {"a": {"default": {"b": 1}}}}
    admitted = admit(schema)
    admitted["enum"].append(1)  # type: ignore[attr-defined]
    admitted["properties"]["a"]["default"]["b"] = 2  # type: ignore[index]
    assert schema == {"enum": [["a"]], "properties": {"a": {"default": {"b": 1}}}}


def test_tuples_are_read_as_lists() -> None:
    assert admit({"required": ("a", "b")}) == {"required": ["a", "b"]}


def test_what_stands_in_values_is_not_read_as_a_schema() -> None:
    schema = {"const": {"$ref": "http://x"}, "enum": [{"type": 3}], "default": {"$ref": "#/no"}, "x-note": {"items": 1}}
    assert admit(schema) == schema


def test_a_property_may_be_called_like_a_keyword() -> None:
    schema = {"properties": {"$ref": {"type": "string"}, "items": {"type": "integer"}, "$id": {"type": "null"}}}
    assert admit(schema) == schema


def refusal_of(schema: object, limits: SchemaLimits | None = None) -> SchemaError:
    with pytest.raises(SchemaError) as refused:
        admit(schema, limits or SchemaLimits())
    assert refused.value.hint
    return refused.value


@pytest.mark.parametrize(
    "schema, code, path",
    [
        (5, "not_a_schema", ""),
        (None, "not_a_schema", ""),
        ([{}], "not_a_schema", ""),
        ({"type": "text"}, "not_a_schema", "/type"),
        ({"type": []}, "not_a_schema", "/type"),
        ({"properties": []}, "not_a_schema", "/properties"),
        ({"properties": {"a": 1}}, "not_a_schema", "/properties/a"),
        ({"properties": {"a": {"required": True}}}, "not_a_schema", "/properties/a/required"),
        ({"anyOf": []}, "not_a_schema", "/anyOf"),
        ({"items": {"minLength": -1}}, "not_a_schema", "/items/minLength"),
        ({"enum": []}, "not_a_schema", "/enum"),
        ({"multipleOf": 0}, "not_a_schema", "/multipleOf"),
        ({"a": {1: 2}}, "not_a_schema", "/a"),
        ({"const": float("nan")}, "not_a_schema", "/const"),
        ({"const": {"a/b": {1}}}, "not_a_schema", "/const/a~1b"),
        ({"title": "\ud800"}, "not_a_schema", "/title"),
        ({"$ref": "http://example.com/a.json"}, "remote_ref", "/$ref"),
        ({"items": {"$ref": "file:///etc/passwd"}}, "remote_ref", "/items/$ref"),
        ({"$ref": "other.json#/a"}, "remote_ref", "/$ref"),
        ({"$ref": "//host/a"}, "remote_ref", "/$ref"),
        ({"$ref": "#/$defs/a"}, "dangling_ref", "/$ref"),
        ({"$ref": "#a"}, "dangling_ref", "/$ref"),
        ({"$ref": "#/x-note", "x-note": {}}, "dangling_ref", "/$ref"),
        ({"$ref": "#/enum/0", "enum": [{}]}, "dangling_ref", "/$ref"),
        ({"$ref": "#"}, "ref_cycle", ""),
        ({"allOf": [{"$ref": "#"}]}, "ref_cycle", "/allOf/0"),
        ({"definitions": {"a": {"$ref": "#/definitions/a"}}}, "ref_cycle", "/definitions/a"),
        ({"$defs": {"a": {"$anchor": "x"}, "b": {"$anchor": "x"}}}, "duplicate_anchor", "/$defs/b/$anchor"),
        ({"properties": {"a": {"$id": "http://x/y"}}}, "nested_id", "/properties/a/$id"),
        ({"items": {"pattern": "(a)\\1"}}, "pattern_not_linear", "/items/pattern"),
        ({"patternProperties": {"a(?=b)/": {}}}, "pattern_not_linear", "/patternProperties/a(?=b)~1"),
        ({"pattern": "["}, "pattern_invalid", "/pattern"),
    ],
)
def test_a_refusal_has_a_code_and_names_the_place_in_the_original(schema: object, code: str, path: str) -> None:
    refusal = refusal_of(schema)
    assert (refusal.code, refusal.path) == (code, path)


SMALL = SchemaLimits(
    max_bytes=400,
    max_depth=3,
    max_subschemas=10,
    max_enum=3,
    max_properties=3,
    max_pattern_length=10,
    max_pattern_size=20,
)


@pytest.mark.parametrize(
    "fits, breaks, code",
    [
        ({"title": "x" * 300}, {"title": "x" * 400}, "too_large"),
        ({"items": {"items": {"items": {}}}}, {"items": {"items": {"items": {"items": {}}}}}, "too_deep"),
        ({"anyOf": [{}] * 9}, {"anyOf": [{}] * 10}, "too_many_subschemas"),
        ({"enum": [1, 2, 3]}, {"enum": [1, 2, 3, 4]}, "enum_too_large"),
        (
            {"properties": dict.fromkeys("abc", True)},
            {"properties": dict.fromkeys("abcd", True)},
            "too_many_properties",
        ),
        ({"pattern": "a" * 10}, {"pattern": "a" * 11}, "pattern_too_large"),
        ({"pattern": "a{10}"}, {"pattern": "a{20}"}, "pattern_too_large"),
        (
            {"properties": {"a": {"pattern": "aaaaaaa"}}},
            {"properties": {name: {"pattern": "aaaaaaa"} for name in "abc"}},
            "pattern_too_large",
        ),
    ],
)
def test_each_limit_lets_through_what_it_names_and_no_more(fits: object, breaks: object, code: str) -> None:
    admit(fits, SMALL)
    assert refusal_of(breaks, SMALL).code == code


def test_subschemas_are_counted_with_references_followed() -> None:
    pair = {"$defs": {"a": {"anyOf": [{}, {}]}}, "properties": {"x": {"$ref": "#/$defs/a"}}}
    admit(pair, SMALL)
    pair["properties"].update({"y": {"$ref": "#/$defs/a"}, "z": {"$ref": "#/$defs/a"}})
    assert refusal_of(pair, SMALL).code == "too_many_subschemas"


def test_recursion_through_parts_of_the_value_is_welcome() -> None:
    tree = {
        "$defs": {
            "tree": {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}}
        },
        "properties": {"root": {"$ref": "#/$defs/tree"}, "self": {"$ref": "#"}},
    }
    assert admit(tree) == tree


def test_references_by_anchor_percent_and_tilde_are_resolved_to_places() -> None:
    schema = {
        "$id": "https://example.com/own",
        "$defs": {"a": {"$anchor": "here"}, "b/c": {}, "d e": {}, "f~g": {}},
        "anyOf": [
            {"$ref": "#here"},
            {"$ref": "#/$defs/b~1c"},
            {"$ref": "#/%24defs/d%20e"},
            {"$ref": "https://example.com/own#/$defs/f~0g"},
        ],
    }
    admitted = admit(schema)
    places = ["#/$defs/a", "#/$defs/b~1c", "#/$defs/d%20e", "#/$defs/f~0g"]
    assert admitted["anyOf"] == [{"$ref": place} for place in places]
    assert Checker(admitted).faults(1) == ()
    assert "$anchor" not in json.dumps(admitted)
