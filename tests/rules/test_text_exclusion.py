"""Text without marks, spelled out, is exactly the text that does not contain them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.rules.text_exclusion import without

MARKS = st.lists(st.text("<[]/ab\n", min_size=1, max_size=5), min_size=1, max_size=4)


@given(MARKS, st.data())
def test_a_text_fits_exactly_if_it_has_none_of_the_marks(marks: list[str], data: st.DataObject) -> None:
    regex = without(marks, re.escape)
    if regex is None:
        firsts = {mark[0] for mark in marks}
        assert any(char in firsts for mark in marks for char in mark[1:])
        return
    pieces = st.one_of(st.sampled_from(marks), st.sampled_from(marks).map(lambda m: m[:-1]), st.text("<[]/abx\n"))
    text = "".join(data.draw(st.lists(pieces, max_size=6)))
    assert bool(re.fullmatch(regex, text)) == (not any(mark in text for mark in marks))


@pytest.mark.parametrize("marks", [("<",), ("</parameter>",), ("<tool_call>", "</think>"), ("[A]", "<b>", "<c>")])
def test_a_mark_that_is_nearly_there_may_stand(marks: tuple[str, ...]) -> None:
    regex = without(marks, re.escape)
    assert regex is not None
    assert re.fullmatch(regex, "".join(mark[:-1] for mark in marks if len(mark) > 1))
    assert not re.fullmatch(regex, marks[-1])
