from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.core.json_text import dumps
from ferrule.errors import SchemaError
from ferrule.schema.admission import admit
from ferrule.schema.checker import MAX_FAULTS, Checker, checker_for
from pace import within

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from([0.5, 2.0]) | st.sampled_from(["", "a", "bb"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
SIMPLE = st.sampled_from(
    [
        {"type": "string", "minLength": 1},
        {"type": ["integer", "null"], "maximum": 2},
        {"enum": [1, "a", None]},
        {"type": "array", "items": {"type": "integer"}, "uniqueItems": True},
        {"not": {"type": "string"}},
        {"type": "object", "required": ["a"], "maxProperties": 2},
        {"const": 0.5},
        True,
        False,
    ]
)
SCHEMAS = st.recursive(
    SIMPLE,
    lambda inner: (
        st.builds(lambda branches: {"anyOf": branches}, st.lists(inner, min_size=1, max_size=3))
        | st.builds(lambda branches: {"oneOf": branches}, st.lists(inner, min_size=1, max_size=3))
        | st.builds(lambda a, b: {"properties": {"a": a}, "additionalProperties": b}, inner, inner)
        | st.builds(lambda a: {"prefixItems": [a], "items": False}, inner)
    ),
    max_leaves=4,
)


@given(SCHEMAS, VALUES)
def test_a_value_has_no_fault_exactly_when_another_validator_takes_it(schema: dict[str, Any], value: Any) -> None:
    faults = Checker(schema).faults(value)
    assert (faults == ()) is jsonschema.Draft202012Validator(schema).is_valid(value)


@given(SCHEMAS, VALUES)
def test_a_value_fits_exactly_when_it_has_no_fault(schema: dict[str, object], value: object) -> None:
    checker = Checker(schema)
    assert checker.fits(value) is (checker.faults(value) == ())


@pytest.mark.parametrize("depth", [100, 300, 5_000])
def test_asking_whether_a_deep_value_fits_raises_nothing(depth: int) -> None:
    value: list[object] = []
    for _ in range(depth):
        value = [value]
    assert Checker({"items": {"$ref": "#"}}).fits(value) in (True, False)


@given(SCHEMAS, VALUES)
def test_text_and_value_have_the_same_faults(schema: dict[str, object], value: object) -> None:
    checker = Checker(schema)
    by_text = checker.faults_of_text(dumps(value))
    assert by_text == checker.faults(value) or by_text[0].keyword == "json"


@given(SCHEMAS, VALUES)
def test_a_fault_points_into_the_value_and_says_something(schema: dict[str, object], value: object) -> None:
    for fault in Checker(schema).faults(value):
        part = value
        for token in fault.path.split("/")[1:]:
            part = part[int(token)] if isinstance(part, list) else part[token]  # type: ignore[index]
        assert fault.message
        assert "\n" not in fault.message


TRIP = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "minLength": 2, "maxLength": 5, "pattern": "^[A-Z]"},
        "days": {"type": "integer", "minimum": 1, "maximum": 9, "multipleOf": 2},
        "class": {"enum": ["first", "second"]},
        "mode": {"const": "train"},
        "day": {"type": "string", "format": "date"},
        "stops": {"type": "array", "items": {"$ref": "#/$defs/stop"}, "minItems": 1, "uniqueItems": True},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "pay": {"oneOf": [{"$ref": "#/$defs/card"}, {"$ref": "#/$defs/cash"}]},
        "share": {"exclusiveMinimum": 0, "exclusiveMaximum": 1},
        "tags": {"type": "object", "propertyNames": {"maxLength": 3}, "minProperties": 1},
    },
    "required": ["city"],
    "additionalProperties": False,
    "$defs": {
        "stop": {"type": "object", "properties": {"at": {"type": "string"}}, "additionalProperties": False},
        "card": {
            "type": "object",
            "properties": {"by": {"const": "card"}, "no": {"type": "string"}},
            "required": ["no"],
        },
        "cash": {"type": "object", "properties": {"by": {"const": "cash"}}, "required": ["by"]},
    },
}


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({}, '/: missing required property "city"'),
        ({"city": 3}, "/city: must be a string, got 3 (integer)"),
        ({"city": "A"}, "/city: must have at least 2 characters, has 1"),
        ({"city": "Abcdefg"}, "/city: must have at most 5 characters, has 7"),
        ({"city": "paris"}, '/city: must match the pattern ^[A-Z], got "paris" (string)'),
        ({"city": "Rome", "days": "two"}, '/days: must be an integer, got "two" (string)'),
        ({"city": "Rome", "days": 0}, "/days: must be at least 1, got 0"),
        ({"city": "Rome", "days": 10}, "/days: must be at most 9, got 10"),
        ({"city": "Rome", "days": 3}, "/days: must be a multiple of 2, got 3"),
        ({"city": "Rome", "share": 0}, "/share: must be more than 0, got 0"),
        ({"city": "Rome", "share": 1}, "/share: must be less than 1, got 1"),
        ({"city": "Rome", "class": "3"}, '/class: must be one of "first", "second"; got "3" (string)'),
        ({"city": "Rome", "mode": "car"}, '/mode: must be "train", got "car" (string)'),
        ({"city": "Rome", "day": "soon"}, '/day: must be a valid date such as "2026-01-31", got "soon" (string)'),
        ({"city": "Rome", "stops": []}, "/stops: must have at least 1 item, has 0"),
        ({"city": "Rome", "stops": [{}, {}]}, "/stops: must not hold the same item twice"),
        ({"city": "Rome", "stops": [{"on": 1}]}, '/stops/0: unknown property "on"; known: "at"'),
        ({"city": "Rome", "note": 1}, "/note: must be a string or null, got 1 (integer)"),
        ({"city": "Rome", "tags": {}}, "/tags: must have at least 1 property, has 0"),
        (
            {"city": "Rome", "pay": {"by": "card"}},
            '/pay: fits none of the 2 alternatives; closest is number 1: /pay: missing required property "no"',
        ),
    ],
)
def test_a_fault_says_where_what_was_expected_and_what_was_found(arguments: object, message: str) -> None:
    assert [str(fault) for fault in Checker(TRIP).faults(arguments)] == [message]


def test_an_unknown_property_is_named_beside_the_known_ones() -> None:
    (fault,) = Checker(TRIP).faults({"city": "Rome", "contry": "Italy"})
    assert fault.keyword == "additionalProperties"
    assert fault.message.startswith('unknown property "contry"; known: "city", "days"')


def test_a_name_that_is_not_allowed_is_quoted() -> None:
    (fault,) = Checker(TRIP).faults({"city": "Rome", "tags": {"long name": 1}})
    assert "long name" in fault.message


def test_at_most_ten_allowed_values_are_listed() -> None:
    (fault,) = Checker({"enum": list(range(100, 120))}).faults(5)
    assert fault.message == f"must be one of {', '.join(map(str, range(100, 110)))} and 10 more; got 5 (integer)"


def test_a_long_value_is_shortened() -> None:
    (fault,) = Checker({"type": "integer"}).faults("x" * 10_000)
    assert len(fault.message) < 120


def test_a_keyword_without_its_own_message_shows_the_validators_shortened() -> None:
    (fault,) = Checker({"contains": {"type": "integer"}}).faults(["x" * 5_000])
    assert fault.keyword == "contains"
    assert len(fault.message) <= 200


def test_only_so_many_faults_are_listed() -> None:
    assert len(Checker({"items": {"type": "integer"}}).faults(["x"] * 10_000)) == MAX_FAULTS


@pytest.mark.parametrize("text", ["", "{", "{'a': 1}", '{"a": NaN}', '{"a": 1e999}', "{} {}", "[" * 100_000])
def test_a_text_that_is_not_json_is_one_fault(text: str) -> None:
    (fault,) = Checker({}).faults_of_text(text)
    assert (fault.path, fault.keyword) == ("", "json")


@pytest.mark.parametrize("text", ["[]", "3", '"{}"', "null"])
def test_a_text_that_is_no_object_is_one_fault_where_an_object_is_wanted(text: str) -> None:
    (fault,) = Checker(TRIP).faults_of_text(text)
    assert (fault.path, fault.keyword) == ("", "json")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "\ud800", {1: 2}, object(), {"a": [float("inf")]}])
def test_a_value_that_is_not_json_fits_no_schema(value: object) -> None:
    (fault,) = Checker(True).faults(value)
    assert fault.keyword == "json"


def test_integers_of_any_length_are_checked_exactly() -> None:
    checker = Checker({"type": "integer", "maximum": 10**30})
    assert checker.faults_of_text(str(10**30)) == ()
    assert len(checker.faults_of_text(str(10**30 + 1))) == 1


def expression(*names: str) -> Checker:
    branches = [
        {"type": "object", "properties": {"op": {"const": name}, "of": {"$ref": "#"}}, "required": ["op"]}
        for name in names
    ]
    branches[0]["properties"]["at most"] = {"type": "integer"}
    branches[0]["additionalProperties"] = False
    return Checker(admit({"oneOf": branches}))


def wrap(value: object, levels: int) -> object:
    for _ in range(levels):
        value = {"op": "c", "of": value}
    return value


@pytest.mark.parametrize(
    "inner, message",
    [
        ({"op": "z"}, '{0}: {0}/op: must be one of "a", "b", "c"; got "z" (string)'),
        ({"op": "a", "at most": "x"}, "{}/at most: must be an integer"),
        ({"op": "a", "by": 1}, '{}: unknown property "by"; known: "op", "of", "at most"'),
    ],
)
def test_deep_in_recursive_alternatives_the_fault_is_still_found_and_soon(inner: object, message: str) -> None:
    checker = expression("a", "b", "c")
    with within(1):
        (fault,) = checker.faults(wrap(inner, 60))
    assert message.format("/of" * 60) in str(fault)


def test_where_no_alternative_is_meant_the_fault_is_the_whole() -> None:
    checker = Checker(admit({"anyOf": [{"properties": {"of": {"$ref": "#"}}, "maxProperties": 1} for _ in range(3)]}))
    value: object = {"a": 1, "b": 2}
    for _ in range(30):
        value = {"of": value}
    (fault,) = checker.faults(value)
    assert (fault.path, fault.keyword) == ("", "schema")


def test_where_two_alternatives_are_meant_neither_is_blamed() -> None:
    checker = expression("a", "c", "c")
    (fault,) = checker.faults(wrap({"op": "z"}, 30))
    assert (fault.path, fault.keyword) == ("", "schema")


def test_many_parts_and_many_properties_are_explained_in_linear_time() -> None:
    properties = {f"p{number}": {"type": "string"} for number in range(400)}
    checker = Checker(admit({"items": {"type": "object", "properties": properties}}))
    with within(3):
        assert len(checker.faults([{"p1": 1}] * 10_000)) == MAX_FAULTS


def test_a_schema_that_does_not_compile_is_refused_by_name() -> None:
    with pytest.raises(SchemaError, match="compiled") as refused:
        Checker({"type": "text"})
    assert (refused.value.code, refused.value.path) == ("not_a_schema", "/type")


@pytest.mark.parametrize("address", ["http://127.0.0.1:9/x", "file:///etc/hostname", "other.json"])
def test_an_address_outside_the_schema_is_never_fetched(address: str) -> None:
    with pytest.raises(SchemaError):
        Checker({"$ref": address})


def test_a_schema_is_compiled_once_whatever_the_order_of_its_keys() -> None:
    assert checker_for({"type": "object", "title": "t"}) is checker_for({"title": "t", "type": "object"})
