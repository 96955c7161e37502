"""Stops: the leftmost literal, then the longest, and never a different one because of where the text was cut."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from ferrule.wire.stops import Hit, Stops
from schema.json_values import cut, cut_places

# Few characters, so that literals overlap; some of them mean something inside a character class.
texts = st.text("ab<^]-\\", max_size=24)
literals = st.lists(st.text("ab<^]-\\", max_size=4), max_size=5)


def naive(text: str, known: list[str], at: int = 0) -> Hit:
    for start in range(at, len(text)):
        found = max((literal for literal in known if literal and text.startswith(literal, start)), key=len, default="")
        if found:
            return Hit(start, found)
    return Hit(len(text), "")


def naive_all(text: str, known: list[str]) -> Iterator[Hit]:
    at = 0
    while (hit := naive(text, known, at)).found:
        yield hit
        at = hit.at + len(hit.found)


def streamed(pieces: list[str], known: list[str]) -> Iterator[Hit]:
    """What is found when the text arrives in pieces and what was passed over is thrown away."""
    stops = Stops(known)
    kept, passed = "", 0
    for number, piece in enumerate(pieces):
        kept += piece
        at_end = number == len(pieces) - 1
        while True:
            hit = stops.scan(kept, 0, at_end)
            end = hit.at + len(hit.found)
            if hit.found:
                yield Hit(passed + hit.at, hit.found)
            kept, passed = kept[end:], passed + end
            if not hit.found:
                break
    assert not kept


@given(texts, literals, st.integers(0, 24))
def test_a_whole_text_is_searched_as_the_plain_way_would(text: str, known: list[str], at: int) -> None:
    at = min(at, len(text))
    assert Stops(known).scan(text, at, True) == naive(text, known, at)


@given(texts, literals, cut_places)
def test_any_cut_finds_the_same_literals_in_the_same_places(text: str, known: list[str], places: list[int]) -> None:
    wanted = list(naive_all(text, known))
    assert list(streamed(cut(text, places), known)) == wanted
    assert list(streamed([*text, ""], known)) == wanted


@given(texts, texts, literals)
def test_what_is_passed_over_holds_no_literal_whatever_follows(text: str, rest: str, known: list[str]) -> None:
    hit = Stops(known).scan(text, 0, False)
    whole = naive(text + rest, known)
    assert hit.at <= whole.at
    if hit.found:
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
