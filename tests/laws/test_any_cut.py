"""Law 2: however the text is split, the events give the same reply, and emitted events are never taken back."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.core.event import ArgumentsDelta, Event
from ferrule.core.reply import Reply, fold
from ferrule.errors import UnrenderableError
from ferrule.wire.format import Format
from ferrule.wire.parser import Parser
from ferrule.wire.registry import all_formats
from ferrule.wire.renderer import render
from laws.cuts import essence, two_call_text
from laws.examples import per_format
from laws.replies import ALL_MARKERS, TOOLS, replies

FORMATS = all_formats()


def events_of(form: Format, pieces: Iterable[str]) -> list[Event]:
    parser = Parser(form, TOOLS)
    events = [event for piece in pieces for event in parser.feed(piece)]
    return [*events, *parser.close()]


def split_text(text: str, offsets: Iterable[int]) -> list[str]:
    ends = sorted({min(offset, len(text)) for offset in offsets} | {len(text)})
    return [text[start:end] for start, end in zip([0, *ends], ends, strict=False)]


@pytest.mark.parametrize("name", FORMATS)
def test_every_two_way_split_of_a_two_call_reply_sums_to_the_same(name: str) -> None:
    form = FORMATS[name]
    text = two_call_text(form)
    whole = essence(fold(events_of(form, [text])))
    wrong = [at for at in range(len(text) + 1) if essence(fold(events_of(form, [text[:at], text[at:]]))) != whole]
    assert not wrong, f"{len(wrong)} of {len(text) + 1} splits differ, the first at {text[: wrong[0]]!r}"


@pytest.mark.parametrize("name", FORMATS)
@per_format(20)
@given(data=st.data())
def test_any_cut_of_a_rendered_reply_sums_to_the_same(name: str, data: st.DataObject) -> None:
    form = FORMATS[name]
    try:
        text = render(form, data.draw(replies(form)), TOOLS)
    except UnrenderableError:
        return
    check_cuts(form, text, data.draw(st.lists(st.integers(0, max(len(text), 1)), max_size=12)))


@pytest.mark.parametrize("name", FORMATS)
@per_format(20)
@given(data=st.data())
def test_any_cut_of_broken_text_sums_to_the_same(name: str, data: st.DataObject) -> None:
    form = FORMATS[name]
    text = two_call_text(form)
    start, end = sorted((data.draw(st.integers(0, len(text))), data.draw(st.integers(0, len(text)))))
    middle = data.draw(st.one_of(st.text(max_size=4), st.sampled_from(ALL_MARKERS)))
    broken = text[:start] + middle + text[end:]
    check_cuts(form, broken, data.draw(st.lists(st.integers(0, max(len(broken), 1)), max_size=12)))


def check_cuts(form: Format, text: str, offsets: list[int]) -> None:
    whole = essence(fold(events_of(form, [text])))
    for pieces in (split_text(text, offsets), list(text)):
        events = events_of(form, pieces)
        reply = fold(events)
        assert essence(reply) == whole
        check_deltas(events, reply)


def check_deltas(events: list[Event], reply: Reply) -> None:
    """Arguments so far are always a prefix of the final JSON."""
    arguments: dict[int, str] = {}
    final = [part.function.arguments for part in (*reply.calls, *reply.incomplete)]
    for event in events:
        if isinstance(event, ArgumentsDelta):
            arguments[event.index] = arguments.get(event.index, "") + event.json
            assert any(text.startswith(arguments[event.index]) for text in final)
