from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.bench.bfcl.miss import Reason
from ferrule.bench.bfcl.score import TYPES, fault_of

STRING, INTEGER, FLOAT, BOOLEAN = ({"type": name} for name in ("string", "integer", "float", "boolean"))
STRINGS, FLOATS, OBJECTS = (
    {"type": "array", "items": {"type": "string"}},
    {"type": "array", "items": {"type": "float"}},
    {"type": "array", "items": {"type": "dict"}},
)
OBJECT = {"type": "dict"}
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
schemas = st.sampled_from([*({"type": name, "items": {"type": "string"}} for name in TYPES), FLOATS, OBJECTS])
ignored_characters = st.text(alphabet=" ,./-_*^", max_size=4)


@given(value=json_values, schema=schemas)
def test_any_value_is_judged_without_an_error(value: Any, schema: dict[str, Any]) -> None:
    assert fault_of(value, schema, ["", "x", ["x"], {"x": ["y"]}]) in (None, Reason.TYPE, Reason.VALUE)


@given(text=st.text(alphabet=st.characters(codec="ascii"), max_size=12), mark=ignored_characters)
def test_case_and_ignored_characters_of_a_string_do_not_count(text: str, mark: str) -> None:
    assert fault_of(mark + text.swapcase() + mark, STRING, [text]) is None


@given(text=st.text(max_size=12))
def test_every_other_character_of_a_string_counts(text: str) -> None:
    assert fault_of(f"{text}!", STRING, [text]) is Reason.VALUE


@given(number=st.integers(min_value=-(2**53), max_value=2**53))
def test_an_int_does_for_a_float_and_a_float_never_for_an_int(number: int) -> None:
    assert fault_of(number, FLOAT, [float(number)]) is None
    assert fault_of(float(number), INTEGER, [number]) is Reason.TYPE


@given(items=st.lists(st.integers(0, 9), min_size=2, unique=True))
def test_the_order_of_a_list_counts(items: list[int]) -> None:
    schema = {"type": "array", "items": {"type": "integer"}}
    assert fault_of(items, schema, [items]) is None
    assert fault_of(items[::-1], schema, [items]) is Reason.VALUE


@pytest.mark.parametrize(
    "value, schema, allowed, fault",
    [
        pytest.param(True, INTEGER, [1], Reason.TYPE, id="a bool is no int"),
        pytest.param("true", BOOLEAN, [True], Reason.TYPE, id="a word is no bool"),
        pytest.param("x", INTEGER, [5, "x"], Reason.TYPE, id="the type of the first allowed value counts"),
        pytest.param("rows[0]", FLOATS, ["rows[0]"], None, id="a name of something instead of a value"),
        pytest.param("ROWS[0]", FLOATS, ["rows[0]"], Reason.VALUE, id="which is compared exactly"),
        pytest.param(None, STRING, ["", None], None, id="null where it is allowed"),
        pytest.param(10**400, FLOAT, [1.0], Reason.TYPE, id="a number that no float can hold"),
        pytest.param(["A, b"], STRINGS, [["a b"]], None, id="strings in a list like strings"),
        pytest.param([1, 2.0], FLOATS, [[1.0, 2.0]], Reason.TYPE, id="an int in a list of floats is not converted"),
        pytest.param([1, 2], FLOATS, [[1, 2.5]], Reason.VALUE, id="but the first allowed item gives a type too"),
        pytest.param([], STRINGS, [["a"], ""], None, id="what may be left out may be empty"),
        pytest.param([5], STRINGS, [["a"], ""], Reason.VALUE, id="and may hold any type, which then differs"),
        pytest.param([], STRINGS, [], Reason.TYPE, id="nothing is allowed, so nothing is right"),
        pytest.param({"a": "X"}, OBJECT, [{"a": ["x"]}], None, id="strings in an object like strings"),
        pytest.param({}, OBJECT, [{"a": ["x", ""]}], None, id="a key that may be left out"),
        pytest.param({}, OBJECT, [{"a": ["x"]}], Reason.VALUE, id="a key that may not"),
        pytest.param({"a": "x", "b": 1}, OBJECT, [{"a": ["x"]}], Reason.VALUE, id="a key too many"),
        pytest.param({"a": 1}, OBJECT, [{"a": [True]}], None, id="in an object 1 and true are one"),
        pytest.param({"a": ["X"]}, OBJECT, [{"a": [["x"]]}], Reason.VALUE, id="strings deeper down are exact"),
        pytest.param([{"a": "X"}], OBJECTS, [[{"a": ["x"]}]], None, id="objects in a list"),
        pytest.param([{"a": "x"}] * 2, OBJECTS, [[{"a": ["x"]}]], Reason.VALUE, id="one object too many"),
        pytest.param(["x"], OBJECTS, ["", [{"a": ["x"]}]], Reason.VALUE, id="no object where one stands"),
    ],
)
def test_a_value_is_judged_by_the_official_rules(value: Any, schema: Any, allowed: list[Any], fault: Any) -> None:
    assert fault_of(value, schema, allowed) is fault
