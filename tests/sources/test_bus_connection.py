from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ferrule.sources.bus_connection import _one_line

texts = st.text(st.characters() | st.sampled_from(" \t\r\n"), max_size=30)
_LINE_BREAKS = str.maketrans("\r\n", "  ")


@given(texts)
def test_a_header_that_is_not_looked_through_again_is_written_as_if_it_were(text: str) -> None:
    (sent,) = _one_line({"X": text}).values()
    assert sent.strip().translate(_LINE_BREAKS) == text.strip().translate(_LINE_BREAKS)
