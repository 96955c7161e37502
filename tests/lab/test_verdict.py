import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.verdict import canonical, canonical_outcome, difference, expected_reply

values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(st.text(), values, max_size=3)


def outcome_of(*arguments: str, content: str = "", error: str | None = None) -> dict[str, Any]:
    return {"content": content, "calls": [{"name": "f", "arguments": text} for text in arguments], "error": error}


@given(arguments=objects)
def test_expected_and_actual_replies_are_equal_however_the_json_is_written(arguments: dict[str, Any]):
    for text in (json.dumps(arguments), json.dumps(arguments, indent=2, sort_keys=True, ensure_ascii=False)):
        assert canonical_outcome(outcome_of(text, content=" hi\n")) == expected_reply("hi", [("f", arguments)])
        assert difference([("f", arguments)], outcome_of(text)) == ""


@pytest.mark.parametrize("one, other", [(True, 1), (False, 0), (None, "null"), ("2", 2), ([], {}), ("a ", "a")])
def test_values_of_different_kinds_are_different(one: Any, other: Any):
    assert canonical(one) != canonical(other)


def test_a_whole_number_is_the_same_with_and_without_a_fraction():
    assert canonical({"a": [2.0]}) == canonical({"a": [2]})


@pytest.mark.parametrize(
    "answer, message",
    [
        (outcome_of(), "0 calls of 1"),
        (outcome_of('{"a": 1}', '{"a": 1}'), "2 calls of 1"),
        (outcome_of('{"a": '), 'arguments are not JSON: {"a": '),
        (outcome_of("[1]"), "arguments are [1]"),
        (outcome_of("{}"), "no a"),
        (outcome_of('{"a": "1"}'), 'a is "1"'),
        (outcome_of('{"a": 1, "b": 2}'), "b is 2"),
        (outcome_of(error="ValueError: what"), "raises ValueError: what"),
    ],
)
def test_a_difference_is_described(answer: dict[str, Any], message: str):
    assert difference([("f", {"a": 1})], answer) == message


def test_a_different_name_is_described():
    assert difference([("g", {})], outcome_of("{}")) == "name 'f' instead of 'g'"
