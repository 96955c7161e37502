"""Arranging: parts go to where the format has a place for them, and nothing but homeless reasoning is lost."""

from __future__ import annotations

from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule import Diagnostic, FinishReason, Reasoning, Reply, Text, ToolCall, UnrenderableError, formats, get_format
from ferrule.core.reply import ReplyPart
from ferrule.wire.node import Think
from ferrule.wire.part_order import arranged, blocks

FORMATS = formats()
ROME, PING = ToolCall.of("get_weather", {"city": "Rome"}), ToolCall.of("ping")

parts = st.one_of(
    st.text(max_size=3).map(Text), st.text(max_size=3).map(Reasoning), st.sampled_from([ROME, PING, ROME])
)
replies = st.lists(parts, max_size=7).map(lambda drawn: Reply(tuple(drawn)))


# One reply is tried in every format: making it costs more than arranging it.
@given(reply=replies)
def test_words_and_calls_are_kept_in_their_order(reply: Reply) -> None:
    for name, form in FORMATS.items():
        got = arranged(form, reply)
        assert (got.text, got.calls) == (reply.text, reply.calls), name
        has_marks = any(isinstance(item, Think) for item in form.reply.items)
        assert got.reasoning == (reply.reasoning if has_marks or not form.reply.is_ordered else ""), name


@given(reply=replies)
def test_what_was_arranged_has_a_place_in_the_turn(reply: Reply) -> None:
    for name, form in FORMATS.items():
        got = arranged(form, reply)
        if len(got.calls) > (form.calls.max_calls or len(got.calls)):
            with pytest.raises(UnrenderableError, match="in a turn"):
                blocks(form.reply, got)
            continue
        placed = [part for block in blocks(form.reply, got) for part in block.parts]
        assert tuple(placed) == got.parts, name


@given(reply=replies)
def test_arranging_twice_is_arranging_once(reply: Reply) -> None:
    for name, form in FORMATS.items():
        once = arranged(form, reply)
        assert arranged(form, once) == once, name


@given(reply=replies)
def test_no_part_is_empty_and_neighbours_are_joined(reply: Reply) -> None:
    for name, form in FORMATS.items():
        got = arranged(form, reply).parts
        assert all(isinstance(part, ToolCall) or part.text for part in got), name
        runs = [(kind, len(list(run))) for kind, run in groupby(got, key=type)]
        assert all(length == 1 for kind, length in runs if kind is not ToolCall), name


def test_text_around_calls_comes_before_them_where_the_family_writes_it_so() -> None:
    got = arranged(get_format("hermes"), Reply.of("a", ROME, "b", Reasoning("hm"), PING))
    assert got.parts == (Reasoning("hm"), Text("ab"), ROME, PING)


def test_text_comes_after_the_calls_where_the_family_writes_it_so() -> None:
    got = arranged(get_format("gemma4"), Reply.of("a", ROME, Reasoning("hm")))
    assert got.parts == (Reasoning("hm"), ROME, Text("a"))


def test_a_format_without_order_keeps_the_replys() -> None:
    mixed: tuple[ReplyPart, ...] = (Text("a"), ROME, Reasoning("hm"), PING, Text("b"))
    assert arranged(get_format("harmony"), Reply(mixed)).parts == mixed


def test_what_else_is_known_of_a_reply_stays() -> None:
    reply = Reply((Text("a"),), (Diagnostic("odd", "something"),), FinishReason.LENGTH)
    assert arranged(get_format("hermes"), reply) == reply


def test_where_there_are_two_places_for_text_the_last_is_for_what_ends_the_turn() -> None:
    turn = get_format("harmony").reply
    alone = blocks(turn, Reply.of("bye"))
    before = blocks(turn, Reply.of("wait", ROME))
    assert alone[0].item is turn.items[3]
    assert before[0].item is turn.items[1]
    assert before[1].follows_text
