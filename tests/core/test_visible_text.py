"""One table of hidden characters: the terminal, the console and the APIs escape the same ones."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.core.visible_text import (
    ALLOWED_IN_PROSE,
    BLANK_RANGES,
    HIDDEN_CATEGORIES,
    is_hidden,
    visible,
    visible_prose,
    visible_text,
)

CONSOLE = Path(__file__).parents[2] / "console" / "src" / "text" / "hiddenCharacters.ts"
CODE_POINT = r"\\u(?:\{([0-9A-F]+)\}|([0-9A-F]{4}))"


def _points(ranges: Iterable[tuple[int, int]]) -> set[int]:
    return {point for first, last in ranges for point in range(first, last + 1)}


def test_the_console_has_the_same_table() -> None:
    source = CONSOLE.read_text("utf-8")
    pattern = re.search(r"const HIDDEN =\s+/\(\?! \)\[(.*)\]/u;", source)
    assert pattern is not None
    text = pattern[1]
    assert set(re.findall(r"\\p\{(\w+)\}", text)) == HIDDEN_CATEGORIES
    rest = re.sub(r"\\p\{\w+\}", "", text)
    ranges = [
        (int(one[0] or one[1], 16), int(one[2] or one[3] or one[0] or one[1], 16))
        for one in re.findall(f"{CODE_POINT}(?:-{CODE_POINT})?", rest)
    ]
    assert _points(ranges) == _points(BLANK_RANGES)
    assert re.sub(f"{CODE_POINT}|-", "", rest) == ""


def test_the_console_allows_the_same_characters_in_prose() -> None:
    allowed = re.search(r"const ALLOWED_IN_PROSE = new Set\(\[(.*)\]\);", CONSOLE.read_text("utf-8"))
    assert allowed is not None
    assert {eval(one) for one in allowed[1].split(", ")} == ALLOWED_IN_PROSE


def test_every_hidden_character_is_escaped_and_every_other_stays() -> None:
    for code in range(sys.maxunicode + 1):
        character = chr(code)
        category = unicodedata.category(character)
        blank = any(first <= code <= last for first, last in BLANK_RANGES)
        expected = character != " " and (category in HIDDEN_CATEGORIES or blank)
        assert is_hidden(character) == expected, hex(code)


@given(st.text(st.characters(categories=None), max_size=30))
def test_what_is_shown_has_nothing_hidden_and_is_the_same_for_text_and_bytes(text: str) -> None:
    assert not any(map(is_hidden, visible(text)))
    if not any(map("\ud800\udfff".__contains__, text)) and not re.search("[\ud800-\udfff]", text):
        assert visible_text(text.encode()) == visible(text)
    assert not any(is_hidden(one) and one not in "\n\t\u00a0\u202f\u200d\ufe0f" for one in visible_prose(text))


@pytest.mark.parametrize("text", ["a\u00a0: b\n\tc", "\U0001f469\u200d\U0001f4bb", "\u2764\ufe0f", "1\ufe0f\u20e3"])
def test_prose_keeps_what_it_needs(text: str) -> None:
    assert visible_prose(text) == text
    assert visible(text) != text


@pytest.mark.parametrize(
    "text", ["bob\u200dsmith", "a\ufe0f", "\u200d", "\u202e", "\u200b", "\U000e0041", "\r", "\x1b", "\u3164"]
)
def test_prose_hides_nothing_else(text: str) -> None:
    assert not any(map(is_hidden, visible_prose(text)))
