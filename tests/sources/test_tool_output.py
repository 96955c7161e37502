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

from ferrule import Media
from ferrule.core.json_text import dumps
from ferrule.core.outcome import Answered
from ferrule.sources.tool_output import (
    MAX_MEDIA,
    MAX_MEDIA_BYTES,
    limit_media,
    to_json_value,
    truncate,
    with_media,
)

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


def test_a_value_with_more_paths_than_steps_ends() -> None:
    loop: list[Any] = []
    loop += [loop, loop]
    assert len(dumps(to_json_value(loop))) < 10_000_000


@pytest.mark.parametrize(
    "value, expected",
    [
        (10**5_000, "(an integer of more than 4300 digits)"),
        ({10**5_000: -(10**4_300)}, {"(an integer of more than 4300 digits)": "(an integer of more than 4300 digits)"}),
        (10**4_299, 10**4_299),
        ("a\ud800", "a\ufffd"),
        ({"\ud800": ["\udfff"]}, {"\ufffd": ["\ufffd"]}),
    ],
    ids=["integer", "integers inside", "longest integer", "surrogate", "surrogates inside"],
)
def test_what_no_engine_could_encode_is_replaced(value: Any, expected: Any) -> None:
    assert to_json_value(value) == expected


def test_an_object_without_a_text_is_shown_by_its_type() -> None:
    class Odd:
        def __str__(self) -> str:
            raise ValueError

    assert to_json_value([Odd()]) == ["(Odd)"]


@given(st.text(min_size=0, max_size=400), st.integers(1, 100))
def test_what_is_truncated_says_how_much_is_there_and_promises_nothing(text: str, most: int) -> None:
    shown = truncate(text, most)
    if len(text.encode()) <= most:
        assert shown == text
        return
    beginning, _, note = shown.rpartition("\n")
    assert text.startswith(beginning)
    assert len(beginning.encode()) <= most
    assert note == f"[truncated: {len(beginning)} of {len(text)} characters]"


SHOT = Media("image", "image/png", data=b"pixels", name="shot.png")


@pytest.mark.parametrize(
    "value, text",
    [
        (SHOT, ""),
        (["the page", SHOT, "and its title"], "the page\nand its title"),
        ([{"a": 1}, SHOT], [{"a": 1}]),
        ({"page": {"shot": SHOT}}, {"page": {"shot": "[image: shot.png, image/png, 6 bytes]"}}),
    ],
)
def test_media_are_taken_out_of_what_a_tool_returns(value: object, text: object) -> None:
    assert with_media(Answered(value)) == Answered(text, media=(SHOT,))


def test_a_value_without_media_is_returned_as_it_is() -> None:
    answer = Answered({"a": ["b", ("c",)]})
    assert with_media(answer) is answer


def test_media_that_are_too_many_or_too_large_are_named() -> None:
    limited = limit_media(Answered("text", media=(SHOT,) * (MAX_MEDIA + 2)))
    assert len(limited.media) == MAX_MEDIA
    assert limited.content.count("shot.png") == 2
    large = Media("file", data=b"x" * (MAX_MEDIA_BYTES + 1), name="large.bin")
    named = limit_media(Answered({"a": 1}, media=(large,)))
    assert named.media == ()
    assert named.content.startswith('{"a": 1}\n[file: large.bin, 20 MB] was left out')
