"""Tool output: any value becomes JSON or text, and is truncated to what a model should read."""

from __future__ import annotations

import datetime
import enum
from dataclasses import dataclass
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.core.json_text import dumps
from ferrule.sources.tool_output import TruncatedOutputs, to_json_value, truncate

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.dates() | st.uuids(),
    lambda inner: st.lists(inner) | st.dictionaries(st.integers() | st.text(), inner) | st.tuples(inner, inner),
    max_leaves=20,
)


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    label: Colour


@given(ANYTHING)
def test_anything_becomes_json(value: Any) -> None:
    dumps(to_json_value(value))


@pytest.mark.parametrize(
    "value, expected",
    [
        (Point(1, Colour.RED), {"x": 1, "label": "red"}),
        (datetime.date(2026, 1, 2), "2026-01-02"),
        ({1: (2, 3)}, {"1": [2, 3]}),
        (b"caf\xc3\xa9", "café"),
        (float("nan"), "nan"),
        (Decimal("1.10"), "1.10"),
        (PurePosixPath("a/b"), "a/b"),
    ],
)
def test_values_keep_their_meaning(value: Any, expected: Any) -> None:
    assert to_json_value(value) == expected


def test_what_contains_itself_ends() -> None:
    loop: list[Any] = []
    loop.append(loop)
    dumps(to_json_value(loop))


@given(st.text(min_size=0, max_size=400), st.integers(1, 100))
def test_what_is_cut_can_be_fetched_piece_by_piece_and_joins_to_the_whole(text: str, most: int) -> None:
    remainders = TruncatedOutputs()
    visible = truncate(text, "r1", remainders, most)
    if visible == text:
        assert len(text.encode()) <= most
        return
    pieces = [remainders.fetch("r1", start, 7) or "" for start in range(0, len(text), 7)]
    assert "".join(pieces) == text
    assert "r1" in visible


def test_the_oldest_remainder_goes_first() -> None:
    remainders = TruncatedOutputs(max_bytes=10)
    remainders.keep("a", "x" * 6)
    remainders.keep("b", "y" * 6)
    assert remainders.fetch("a") is None
    assert remainders.fetch("b") == "y" * 6
