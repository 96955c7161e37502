"""Law 6: arbitrary text never raises, and every character is accounted for once."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.core.event import Diagnostic, Event, ReasoningDelta, TextDelta
from ferrule.wire.format import Format
from ferrule.wire.parser import Parser, parse
from ferrule.wire.registry import all_formats
from laws.cuts import two_call_text
from laws.examples import per_format
from laws.replies import ALL_MARKERS, TOOLS, own_markers

FORMATS = all_formats()


@cache
def junk(form: Format) -> st.SearchStrategy[str]:
    """Pieces of the format's own text, markers of all formats and anything else, in any order."""
    own = two_call_text(form)
    piece = st.one_of(
        st.sampled_from(sorted(own_markers(form))),
        st.sampled_from(ALL_MARKERS),
        st.text(max_size=8),
        st.sampled_from(["get_weather", "ping", '{"name": "ping"', "}", "\n", " ", '"', "(", ")", "[", "]", ",", ": "]),
        st.tuples(st.integers(0, len(own)), st.integers(0, len(own))).map(lambda ends: own[min(ends) : max(ends)]),
    )
    return st.lists(piece, max_size=12).map("".join)


@pytest.mark.parametrize("name", FORMATS)
@per_format(20)
@given(data=st.data())
def test_junk_never_raises_and_every_character_comes_out_once(name: str, data: st.DataObject) -> None:
    form = FORMATS[name]
    text = data.draw(junk(form))
    size = data.draw(st.just(len(text) + 1) | st.integers(1, 40), label="the size of a feed")
    parser = Parser(form, TOOLS, trace=True)
    events: list[Event] = []
    for start in range(0, len(text), size):
        events.extend(parser.feed(text[start : start + size]))
    events.extend(parser.close())

    spans = parser.spans
    assert "".join(text[span.start : span.end] for span in spans) == text
    landed = {
        kind: "".join(text[s.start : s.end] for s in spans if s.kind == kind)
        for kind in ("text", "reasoning", "diagnostic")
    }
    assert landed["text"] == "".join(e.text for e in events if isinstance(e, TextDelta))
    assert landed["reasoning"] == "".join(e.text for e in events if isinstance(e, ReasoningDelta))
    noted = [event.text for event in events if isinstance(event, Diagnostic)]
    assert all(note in text for note in noted)
    assert len(landed["diagnostic"]) <= sum(map(len, noted))


@pytest.mark.parametrize("name", FORMATS)
def test_a_truncated_reply_yields_only_calls_of_the_complete_reply(name: str) -> None:
    form = FORMATS[name]
    text = two_call_text(form)
    whole = [call.function for call in parse(form, text, TOOLS).calls]
    for at in range(len(text) + 1):
        calls = [call.function for call in parse(form, text[:at], TOOLS).calls]
        assert calls == whole[: len(calls)], f"cut off at {text[:at]!r}"
