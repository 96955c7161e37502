import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.verdict import canonical, difference, meant, said

values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(st.text(), values, max_size=3)


def answered(*arguments: str, content: str = "", error: str | None = None) -> dict[str, Any]:
    return {"content": content, "calls": [{"name": "f", "arguments": text} for text in arguments], "error": error}


@given(arguments=objects)
def test_what_was_meant_and_what_was_said_are_the_same_however_the_json_is_spelled(arguments: dict[str, Any]):
    for text in (json.dumps(arguments), json.dumps(arguments, indent=2, sort_keys=True, ensure_ascii=False)):
        assert said(answered(text, content=" hi\n")) == meant("hi", [("f", arguments)])
        assert difference([("f", arguments)], answered(text)) == ""


@pytest.mark.parametrize("one, other", [(True, 1), (False, 0), (None, "null"), ("2", 2), ([], {}), ("a ", "a")])
def test_values_of_different_kinds_are_different(one: Any, other: Any):
    assert canonical(one) != canonical(other)


def test_a_whole_number_is_the_same_with_and_without_a_fraction():
    assert canonical({"a": [2.0]}) == canonical({"a": [2]})


@pytest.mark.parametrize(
    "answer, told",
    [
        (answered(), "0 calls of 1"),
        (answered('{"a": 1}', '{"a": 1}'), "2 calls of 1"),
        (answered('{"a": '), 'arguments are not JSON: {"a": '),
        (answered("[1]"), "arguments are [1]"),
        (answered("{}"), "no a"),
        (answered('{"a": "1"}'), 'a is "1"'),
        (answered('{"a": 1, "b": 2}'), "b is 2"),
        (answered(error="ValueError: what"), "raises ValueError: what"),
    ],
)
def test_a_difference_is_told_in_words(answer: dict[str, Any], told: str):
    assert difference([("f", {"a": 1})], answer) == told


def test_another_name_is_told():
    assert difference([("g", {})], answered("{}")) == "name 'f' instead of 'g'"
