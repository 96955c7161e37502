"""NDJSON: any split of the bytes gives the same objects, and invalid lines are refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialects.replies import arguments
from ferrule import FerruleError
from ferrule.core.json_text import loads
from ferrule.dialects.ndjson import NdjsonDecoder


@given(st.lists(arguments), st.integers(1, 20), st.booleans())
def test_any_cut_of_the_bytes_gives_the_same_objects(lines: list[str], size: int, ends: bool) -> None:
    data = ("\n".join(lines) + "\n" * ends).encode()
    decoder = NdjsonDecoder()
    values = [value for at in range(0, len(data), size) for value in decoder.feed(data[at : at + size])]
    assert values + decoder.close() == [loads(line) for line in lines]


@pytest.mark.parametrize("line", [b"<html>\n", b"[1]\n", b'{"a": NaN}\n'])
def test_a_line_that_is_no_object_is_refused(line: bytes) -> None:
    with pytest.raises(FerruleError) as caught:
        NdjsonDecoder().feed(line)
    assert caught.value.code == "bad_stream"
    assert caught.value.hint


def test_a_line_over_its_bound_is_stopped() -> None:
    with pytest.raises(FerruleError):
        NdjsonDecoder(max_line=10).feed(b'{"a": "' + b"x" * 10)
