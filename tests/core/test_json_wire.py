"""Fast JSON means what slow JSON means."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.core.json_text import dumps, json_bytes, loads, read_json

TEXT = st.text(st.characters(exclude_categories=())) | st.text()
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_what_is_written_is_read_back_by_both_readers(value: Any) -> None:
    data = json_bytes(value)
    assert b"\n" not in data
    assert json.loads(data) == value
    assert read_json(data.decode()) == value


@given(VALUES)
def test_what_the_slow_writer_wrote_is_read_the_same(value: Any) -> None:
    assert read_json(dumps(value)) == loads(dumps(value)) == value


@given(st.text(alphabet='{}[]",:0123456789.eE+-truefalsn \\ud8', max_size=30))
def test_both_readers_agree_on_what_is_json(text: str) -> None:
    try:
        slow = repr(loads(text))
    except (ValueError, RecursionError):
        with pytest.raises((ValueError, RecursionError)):
            read_json(text)
    else:
        assert repr(read_json(text)) == slow
