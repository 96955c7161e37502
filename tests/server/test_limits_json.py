import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.errors import TooLargeError
from ferrule.server.auth.json_limits import check_json

TEXTS = st.text(st.sampled_from('[]{},:"\\ab\u00e9 '), max_size=12)
VALUES = st.recursive(
    st.none() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


def depth(value: object) -> int:
    held = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if held is None else 1 + max(map(depth, held), default=0)


def most(value: object) -> int:
    """Every value, and lists and objects once more as if they held one: never less than the values there are."""
    held = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 1 if held is None else 1 + max(1, sum(map(most, held)))


def count(value: object) -> int:
    held = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 1 if held is None else 1 + sum(map(count, held))


def passes(text: str, deep: int, values: int) -> bool:
    try:
        check_json(text.encode(), deep, values)
    except TooLargeError:
        return False
    return True


@given(VALUES, st.booleans())
def test_a_value_passes_exactly_when_it_is_no_deeper_than_it_may_be(value: object, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    deep = depth(value)
    assert passes(text, deep, 10_000)
    assert not deep or not passes(text, deep - 1, 10_000)


@given(VALUES)
def test_a_value_with_more_values_than_it_may_have_is_refused_and_a_smaller_one_is_not(value: object) -> None:
    text = json.dumps(value)
    assert passes(text, 100, most(value) + 1)
    assert not passes(text, 100, max(count(value) - 1, 0)) or count(value) <= 1


@given(st.text(st.sampled_from('[]{},"\\a'), max_size=60), st.integers(0, 5))
def test_what_is_too_deep_before_it_stops_being_json_is_refused(text: str, deep: int) -> None:
    assert not passes("[" * (deep + 1) + text, deep, 10_000)


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
def test_texts_that_are_built_to_hurt_are_refused_or_harmless(text: bytes) -> None:
    try:
        check_json(text, 64, 200_000)
    except TooLargeError:
        return
    with pytest.raises(json.JSONDecodeError):
        json.loads(text)


def test_a_long_text_with_brackets_and_commas_in_it_is_one_value() -> None:
    check_json(json.dumps({"content": "[{," * 300_000}).encode(), 2, 10)
