import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.errors import TooLargeError
from ferrule.server.auth.request_limits import check_json

TEXTS = st.text(st.sampled_from('[]{},:"\\ab\u00e9 '), max_size=12)
VALUES = st.recursive(
    st.none() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


def depth(value: object) -> int:
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if children is None else 1 + max(map(depth, children), default=0)


def upper_bound(value: object) -> int:
    """An upper bound for the number of values: an empty list or object counts as if it held one."""
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 1 if children is None else 1 + max(1, sum(map(upper_bound, children)))


def count(value: object) -> int:
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 1 if children is None else 1 + sum(map(count, children))


def is_accepted(text: str, deep: int, values: int) -> bool:
    try:
        check_json(text.encode(), deep, values)
    except TooLargeError:
        return False
    return True


@given(VALUES, st.booleans())
def test_a_value_is_accepted_exactly_up_to_the_maximum_depth(value: object, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    deep = depth(value)
    assert is_accepted(text, deep, 10_000)
    assert not deep or not is_accepted(text, deep - 1, 10_000)


@given(VALUES)
def test_a_value_with_too_many_values_is_refused_and_a_smaller_one_is_not(value: object) -> None:
    text = json.dumps(value)
    assert is_accepted(text, 100, upper_bound(value) + 1)
    assert not is_accepted(text, 100, max(count(value) - 1, 0)) or count(value) <= 1


@given(st.text(st.sampled_from('[]{},"\\a'), max_size=60), st.integers(0, 5))
def test_a_text_that_is_too_deep_is_refused_even_if_it_is_not_json(text: str, deep: int) -> None:
    assert not is_accepted("[" * (deep + 1) + text, deep, 10_000)


@pytest.mark.parametrize(
    "text",
    [
        b"[" * 1_000_000,
        b'{"a":' * 500_000,
        b"[" + b"[]," * 500_000 + b"[]]",
        b'["' + b'\\"' * 1_000_000,
        b'"' * 2_000_000,
        b"[" * 40 + b'"\\' * 500_000,
    ],
)
def test_hostile_texts_are_refused_or_harmless(text: bytes) -> None:
    try:
        check_json(text, 64, 200_000)
    except TooLargeError:
        return
    with pytest.raises(json.JSONDecodeError):
        json.loads(text)


def test_a_long_text_with_brackets_and_commas_in_it_is_one_value() -> None:
    check_json(json.dumps({"content": "[{," * 300_000}).encode(), 2, 10)
