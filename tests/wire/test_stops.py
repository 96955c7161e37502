"""Stops finds the leftmost literal, then the longest, independent of where the text was split."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from ferrule.wire.tape import Hit, Stops
from schema.json_values import cut_offsets, split_text

# Few characters, so that literals overlap; some of them mean something inside a character class.
texts = st.text("ab<^]-\\", max_size=24)
literals = st.lists(st.text("ab<^]-\\", max_size=4), max_size=5)


def naive(text: str, stop_texts: list[str], at: int = 0) -> Hit:
    for start in range(at, len(text)):
        longest = max(
            (literal for literal in stop_texts if literal and text.startswith(literal, start)), key=len, default=""
        )
        if longest:
            return Hit(start, longest)
    return Hit(len(text), "")


def naive_all(text: str, stop_texts: list[str]) -> Iterator[Hit]:
    at = 0
    while (hit := naive(text, stop_texts, at)).literal:
        yield hit
        at = hit.at + len(hit.literal)


def scan_pieces(pieces: list[str], stop_texts: list[str]) -> Iterator[Hit]:
    """The hits when the text arrives in pieces and scanned text is discarded."""
    stops = Stops(stop_texts)
    buffer, passed = "", 0
    for number, piece in enumerate(pieces):
        buffer += piece
        at_end = number == len(pieces) - 1
        while True:
            hit = stops.scan(buffer, 0, at_end)
            end = hit.at + len(hit.literal)
            if hit.literal:
                yield Hit(passed + hit.at, hit.literal)
            buffer, passed = buffer[end:], passed + end
            if not hit.literal:
                break
    assert not buffer


@given(texts, literals, st.integers(0, 24))
def test_a_whole_text_is_searched_as_the_plain_way_would(text: str, stop_texts: list[str], at: int) -> None:
    at = min(at, len(text))
    assert Stops(stop_texts).scan(text, at, True) == naive(text, stop_texts, at)


@given(texts, literals, cut_offsets)
def test_any_cut_finds_the_same_literals_in_the_same_places(
    text: str, stop_texts: list[str], places: list[int]
) -> None:
    expected = list(naive_all(text, stop_texts))
    assert list(scan_pieces(split_text(text, places), stop_texts)) == expected
    assert list(scan_pieces([*text, ""], stop_texts)) == expected


@given(texts, texts, literals)
def test_what_is_passed_over_holds_no_literal_whatever_follows(text: str, rest: str, stop_texts: list[str]) -> None:
    hit = Stops(stop_texts).scan(text, 0, False)
    whole = naive(text + rest, stop_texts)
    assert hit.at <= whole.at
    if hit.literal:
        assert hit == whole


def test_leftmost_wins_over_longest() -> None:
    assert Stops(["bcd", "ab"]).scan("abcd", 0, True) == Hit(0, "ab")


def test_at_one_place_the_longest_wins() -> None:
    assert Stops(["<t", "<tool>", "<to"]).scan("x<tool>", 0, True) == Hit(1, "<tool>")


def test_a_shorter_literal_waits_while_a_longer_one_is_possible() -> None:
    stops = Stops(["<t", "<tool>"])
    assert stops.scan("x<t", 0, False) == Hit(1, "")
    assert stops.scan("x<tx", 0, False) == Hit(1, "<t")
    assert stops.scan("x<t", 0, True) == Hit(1, "<t")


def test_text_without_any_first_character_is_passed_over_at_once() -> None:
    assert Stops(["<tool>"]).scan("hello", 0, False) == Hit(5, "")


def test_with_no_literals_everything_is_passed_over() -> None:
    assert Stops([]).scan("hello", 2, False) == Stops([""]).scan("hello", 2, False) == Hit(5, "")
