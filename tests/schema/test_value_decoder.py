import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.core.json_text import dumps
from ferrule.schema.reader import normalize_json
from ferrule.schema.value_decoder import ALL_TYPES, DecodedValue, decode, encode, is_whole, type_name, types_allowed

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
# Strings that look like other types are the hard cases for decoding.
LOOKALIKES = st.sampled_from(
    ["null", "None", "true", "True", "1", "2.0", "NaN", '"quoted"', "'single'", "[1]", "{'a': 1}", " 1 ", "", " "]
)
ALLOWED = st.frozensets(st.sampled_from(sorted(ALL_TYPES)), min_size=1)


def is_of(value: object, allowed: frozenset[str]) -> bool:
    name = type_name(value)
    return name in allowed or (name == "integer" and "number" in allowed)


@given(JSON_VALUES | LOOKALIKES, ALLOWED, st.booleans())
def test_what_encode_writes_decode_reads_back(value: object, allowed: frozenset[str], literals: bool) -> None:
    text = dumps(value)
    raw = encode(text, allowed, literals)
    if raw is not None:
        assert decode(raw, allowed, literals) == DecodedValue(normalize_json(text), True)


@given(JSON_VALUES | LOOKALIKES, ALLOWED, st.booleans())
def test_every_value_of_an_allowed_type_can_be_written(value: object, allowed: frozenset[str], literals: bool) -> None:
    assert (encode(dumps(value), allowed, literals) is not None) is is_of(value, allowed)


@given(st.text() | LOOKALIKES | JSON_VALUES.map(dumps), ALLOWED, st.booleans())
def test_decoded_text_is_json_of_an_allowed_type_or_not_ok(raw: str, allowed: frozenset[str], literals: bool) -> None:
    decoded = decode(raw, allowed, literals)
    value = json.loads(decoded.json_text)
    assert is_of(value, allowed) if decoded.ok else value == raw


@given(st.text())
def test_where_only_a_string_is_allowed_the_text_is_the_string(raw: str) -> None:
    assert json.loads(decode(raw, frozenset({"string"}), True).json_text) == raw


@given(st.integers() | st.decimals(allow_nan=False, allow_infinity=False, places=3))
def test_a_number_keeps_its_spelling(number: object) -> None:
    raw = str(number)
    assert decode(raw, frozenset({"number"})) == DecodedValue(raw, True)


STRING, INTEGER, NUMBER, BOOLEAN = ({"type": name} for name in ("string", "integer", "number", "boolean"))
OBJECT, ARRAY = {"type": "object"}, {"type": "array"}
INTEGER_OR_NULL, STRING_OR_NULL = {"type": ["integer", "null"]}, {"type": ["string", "null"]}

# (schema, raw, JSON text, whether its type is allowed, JSON text if Python literals are allowed too)
SPELLINGS = [
    (STRING, "null", '"null"', True, None),
    (STRING, " lead and trail ", '" lead and trail "', True, None),
    (STRING, "\nx\n", '"\\nx\\n"', True, None),
    (STRING, "a </parameter> b", '"a </parameter> b"', True, None),
    (STRING, '"quoted"', '"\\"quoted\\""', True, None),
    (STRING, "True", '"True"', True, None),
    (INTEGER, "2.0", "2.0", True, None),
    (INTEGER, "2.5", '"2.5"', False, None),
    (INTEGER, " 7\n", "7", True, None),
    (INTEGER, "123456789012345678901234567890", "123456789012345678901234567890", True, None),
    (INTEGER, "007", '"007"', False, None),
    (INTEGER, '"2"', '"\\"2\\""', False, None),
    (NUMBER, "1e3", "1e3", True, None),
    (NUMBER, "NaN", '"NaN"', False, None),
    (NUMBER, "-Infinity", '"-Infinity"', False, None),
    (NUMBER, "1,5", '"1,5"', False, None),
    (BOOLEAN, "yes", '"yes"', False, None),
    (BOOLEAN, "true", "true", True, None),
    (BOOLEAN, "True", '"True"', False, "true"),
    (BOOLEAN, "0", '"0"', False, None),
    (OBJECT, "{'a': 1, 'b': None}", "\"{'a': 1, 'b': None}\"", False, '{"a": 1, "b": null}'),
    (OBJECT, '{"a":[1,2.0,1e3]}', '{"a": [1, 2.0, 1e3]}', True, None),
    (OBJECT, "{'a', 'b'}", "\"{'a', 'b'}\"", False, None),
    (ARRAY, "['x', 'y']", "\"['x', 'y']\"", False, '["x", "y"]'),
    (ARRAY, "(1, 2)", '"(1, 2)"', False, "[1, 2]"),
    (INTEGER_OR_NULL, "None", '"None"', False, "null"),
    (INTEGER_OR_NULL, "null", "null", True, None),
    (STRING_OR_NULL, "null", "null", True, None),
    (STRING_OR_NULL, "none of these", '"none of these"', True, None),
    ({}, "b'bytes'", "\"b'bytes'\"", True, None),
]


@pytest.mark.parametrize("schema, raw, text, ok, literal", SPELLINGS)
def test_each_spelling_has_one_meaning(schema: object, raw: str, text: str, ok: bool, literal: str | None) -> None:
    allowed = types_allowed(schema, schema)
    assert decode(raw, allowed) == DecodedValue(text, ok)
    assert decode(raw, allowed, True) == (DecodedValue(text, ok) if literal is None else DecodedValue(literal, True))


def test_a_line_break_inside_a_quoted_string_is_not_json() -> None:
    assert decode('"a\nb"', frozenset({"string", "null"})) == DecodedValue('"\\"a\\nb\\""', True)


def test_a_key_that_is_there_twice_is_not_quietly_dropped() -> None:
    decoded = decode('{"a": 1, "a": 2, "b": {"c": 1, "c": [2]}}', frozenset({"object"}))
    assert decoded == DecodedValue('{"a": 1, "b": {"c": 1}}', True, ("a", "c"))


def test_a_value_nested_beyond_reason_is_not_ok_and_does_not_raise() -> None:
    assert not decode("[" * 100_000, frozenset({"array"})).ok
    assert not decode("[" * 5_000 + "]" * 5_000, frozenset({"array"}), True).ok


def test_half_a_surrogate_pair_comes_out_as_an_escape() -> None:
    decode("\ud800", frozenset({"string"})).json_text.encode()


@pytest.mark.parametrize(
    "number", ["0", "-0.0", "2.0", "1e3", "1.5e1", "10e-1", "0e-99999999999999999999", "1e" + "9" * 30]
)
def test_a_number_without_a_fraction_is_whole_however_it_is_written(number: str) -> None:
    assert is_whole(number)


@pytest.mark.parametrize("number", ["0.5", "1e-1", "15e-1", "1.05e1", "1e-" + "9" * 30])
def test_a_number_with_a_fraction_is_not_whole(number: str) -> None:
    assert not is_whole(number)


ROOT = {
    "$defs": {
        "text": {"type": "string"},
        "either": {"anyOf": [{"$ref": "#/$defs/text"}, {"type": "null"}]},
        "loop": {"$ref": "#/$defs/loop"},
        "tree": {"type": "object", "properties": {"next": {"$ref": "#/$defs/tree"}}},
    }
}
WITH_INTEGER = {"number", "integer"}


@pytest.mark.parametrize(
    "schema, types",
    [
        (True, ALL_TYPES),
        (False, ALL_TYPES),
        ({}, ALL_TYPES),
        ({"type": "number"}, WITH_INTEGER),
        ({"type": ["integer", "null"]}, {"integer", "null"}),
        ({"$ref": "#/$defs/either"}, {"string", "null"}),
        ({"$ref": "#/$defs/loop"}, ALL_TYPES),
        ({"$ref": "#/$defs/tree"}, {"object"}),
        ({"$ref": "#/$defs/nowhere"}, ALL_TYPES),
        ({"$ref": "http://example.com/schema"}, ALL_TYPES),
        ({"oneOf": [{"type": "boolean"}, {"const": 2.5}]}, {"boolean", *WITH_INTEGER}),
        ({"allOf": [{"type": ["string", "integer"]}, {"type": "number"}]}, {"integer"}),
        ({"type": "string", "allOf": [{"type": "integer"}]}, ALL_TYPES),
        ({"enum": ["1", "2"]}, {"string"}),
        ({"enum": [1, None, [], {}, True]}, {"integer", "null", "array", "object", "boolean"}),
        ({"const": 2.0}, {"integer"}),
    ],
)
def test_the_allowed_types_follow_from_the_schema(schema: object, types: set[str]) -> None:
    assert types_allowed(schema, ROOT) == frozenset(types)
