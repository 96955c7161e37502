"""The regex for text without some markers matches exactly the texts that do not contain them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.rules.lark import text_excluding

MARKERS = st.lists(st.text("<[]/ab\n", min_size=1, max_size=5), min_size=1, max_size=4)


@given(MARKERS, st.data())
def test_a_text_matches_exactly_if_it_contains_no_marker(markers: list[str], data: st.DataObject) -> None:
    regex = text_excluding(markers, re.escape)
    if regex is None:
        firsts = {marker[0] for marker in markers}
        assert any(char in firsts for marker in markers for char in marker[1:])
        return
    pieces = st.one_of(st.sampled_from(markers), st.sampled_from(markers).map(lambda m: m[:-1]), st.text("<[]/abx\n"))
    text = "".join(data.draw(st.lists(pieces, max_size=6)))
    assert bool(re.fullmatch(regex, text)) == (not any(marker in text for marker in markers))


@pytest.mark.parametrize("markers", [("<",), ("</parameter>",), ("<tool_call>", "</think>"), ("[A]", "<b>", "<c>")])
def test_an_incomplete_marker_is_allowed(markers: tuple[str, ...]) -> None:
    regex = text_excluding(markers, re.escape)
    assert regex is not None
    assert re.fullmatch(regex, "".join(marker[:-1] for marker in markers if len(marker) > 1))
    assert not re.fullmatch(regex, markers[-1])
