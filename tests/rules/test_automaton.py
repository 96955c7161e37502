from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.rules.gbnf import emit_gbnf
from ferrule.rules.rule import Prose, Rule, RuleNode, Str, Text, Until, seq
from ferrule.schema.notation import JSON_QUOTE, PYTHON_SINGLE
from rules.gbnf_acceptor import Acceptor

# Few letters, so that strings overlap with themselves and with each other all the time.
letters = st.text("ab<", max_size=8)
some_strings = st.lists(st.text("ab<", min_size=1, max_size=4), max_size=3).map(tuple)
limits = st.none() | st.integers(0, 4)


def acceptor_for(node: RuleNode) -> Acceptor:
    return Acceptor(emit_gbnf(Rule(node)).text)


@given(some_strings, st.sampled_from(["", "a", "b<"]), limits, letters)
def test_free_text_holds_no_excluded_string(
    excludes: tuple[str, ...], not_first: str, at_most: int | None, text: str
) -> None:
    expected = (
        not any(each in text for each in excludes)
        and text[:1] not in [*not_first]
        and (at_most is None or len(text) <= at_most)
    )
    assert acceptor_for(Prose(excludes, not_first, at_most)).accepts(text) == expected


def ends_well(node: Until, text: str) -> bool:
    """The expected result by brute force: no excluded string begins before the first end."""
    body = text[: -len(node.end)]
    if not text.endswith(node.end) or text.find(node.end) != len(body):
        return False
    starts = [match.start() for each in node.excludes for match in re.finditer(f"(?={re.escape(each)})", text)]
    return (
        all(start >= len(body) for start in starts)
        and body[:1] not in [*node.not_first]
        and (node.at_most is None or len(body) <= node.at_most)
    )


@given(st.text("ab<", min_size=1, max_size=4), some_strings, st.sampled_from(["", "a", "b<"]), limits, letters)
def test_text_ends_at_the_first_end_and_holds_no_excluded_string_before(
    end: str, excludes: tuple[str, ...], not_first: str, at_most: int | None, text: str
) -> None:
    node = Until(end, excludes, not_first, at_most)
    acceptor = acceptor_for(node)
    for candidate in (text, text + end):
        assert acceptor.accepts(candidate) == ends_well(node, candidate), candidate


@given(st.text("ab<", min_size=1, max_size=4), some_strings, letters)
def test_what_follows_an_end_begins_right_after_it(end: str, excludes: tuple[str, ...], text: str) -> None:
    node = Until(end, excludes)
    assert acceptor_for(seq(node, Text("!"))).accepts(text + end + "!") == ends_well(node, text + end)


strings = st.text(st.sampled_from(["a", "b", "<", '"', "'", "\\", "\n", "é", "😀", "\x07"]), max_size=6)


def has_length(text: str, at_least: int, at_most: int | None) -> bool:
    """Contradictory bounds are relaxed to the lower one."""
    return at_least <= len(text) and (at_most is None or len(text) <= max(at_least, at_most))


@given(strings, st.integers(0, 3), limits)
def test_a_json_string_has_a_length_in_characters_however_they_are_written(
    text: str, at_least: int, at_most: int | None
) -> None:
    acceptor = acceptor_for(Str(JSON_QUOTE, at_least, at_most))
    expected = has_length(text, at_least, at_most)
    for is_ascii in (False, True):
        assert acceptor.accepts(json.dumps(text, ensure_ascii=is_ascii)) == expected


@given(strings, some_strings | st.just(('"', "n")), st.integers(0, 3), limits)
def test_a_string_holds_no_excluded_text_as_it_is_written(
    text: str, excludes: tuple[str, ...], at_least: int, at_most: int | None
) -> None:
    acceptor = acceptor_for(Str(JSON_QUOTE, at_least, at_most, None, ("\\u0061", *excludes)))
    literal = json.dumps(text, ensure_ascii=False)
    has_excluded = any(each in literal for each in excludes)
    assert acceptor.accepts(literal) == (has_length(text, at_least, at_most) and not has_excluded)


@pytest.mark.parametrize(
    "literal", ['"', '"a', '"\\"', '"a""', '"\n"', '"\\q"', '"\\u12"', '"\\ud83d"', '"\\ude00"', '"\\ud83d\\u0041"']
)
def test_what_is_not_a_json_string_is_refused(literal: str) -> None:
    assert not acceptor_for(Str(JSON_QUOTE)).accepts(literal)
    assert not acceptor_for(Str(JSON_QUOTE, excludes=("zzz",))).accepts(literal)


@pytest.mark.parametrize("text", ["", "it's", 'say "hi"', "a\nb", "\\", "é\x00"])
def test_python_literals_are_strings_in_their_own_quotes(text: str) -> None:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\x00", "\\x00")
    assert acceptor_for(Str(PYTHON_SINGLE)).accepts(f"'{escaped}'")
    assert not acceptor_for(Str(PYTHON_SINGLE)).accepts(f'"{escaped}"')
