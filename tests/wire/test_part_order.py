"""arrange_parts puts parts into the format's order, and drops only reasoning that the format cannot express."""

from __future__ import annotations

from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule import Diagnostic, FinishReason, Reasoning, Reply, Text, ToolCall, UnrenderableError
from ferrule.core.reply import ReplyPart
from ferrule.formats import all_formats, get_format
from ferrule.wire.node import Think
from ferrule.wire.renderer import arrange_parts, blocks

FORMATS = all_formats()
ROME, PING = ToolCall.of("get_weather", {"city": "Rome"}), ToolCall.of("ping")

parts = st.one_of(
    st.text(max_size=3).map(Text), st.text(max_size=3).map(Reasoning), st.sampled_from([ROME, PING, ROME])
)
replies = st.lists(parts, max_size=7).map(lambda drawn: Reply(tuple(drawn)))


# One reply is tried in every format: making it costs more than arranging it.
@given(reply=replies)
def test_words_and_calls_are_kept_in_their_order(reply: Reply) -> None:
    for name, form in FORMATS.items():
        result = arrange_parts(form, reply)
        assert (result.text, result.calls) == (reply.text, reply.calls), name
        has_marks = any(isinstance(item, Think) for item in form.reply.items)
        assert result.reasoning == (reply.reasoning if has_marks or not form.reply.is_ordered else ""), name


@given(reply=replies)
def test_arranged_parts_can_be_rendered(reply: Reply) -> None:
    for name, form in FORMATS.items():
        result = arrange_parts(form, reply)
        if len(result.calls) > (form.calls.max_calls or len(result.calls)):
            with pytest.raises(UnrenderableError, match="per turn"):
                blocks(form.reply, result)
            continue
        placed = [part for block in blocks(form.reply, result) for part in block.parts]
        assert tuple(placed) == result.parts, name


@given(reply=replies)
def test_arranging_twice_is_arranging_once(reply: Reply) -> None:
    for name, form in FORMATS.items():
        once = arrange_parts(form, reply)
        assert arrange_parts(form, once) == once, name


@given(reply=replies)
def test_no_part_is_empty_and_neighbours_are_joined(reply: Reply) -> None:
    for name, form in FORMATS.items():
        parts = arrange_parts(form, reply).parts
        assert all(isinstance(part, ToolCall) or part.text for part in parts), name
        runs = [(kind, len(list(run))) for kind, run in groupby(parts, key=type)]
        assert all(length == 1 for kind, length in runs if kind is not ToolCall), name


def test_text_around_calls_comes_before_them_where_the_family_writes_it_so() -> None:
    result = arrange_parts(get_format("hermes"), Reply.of("a", ROME, "b", Reasoning("hm"), PING))
    assert result.parts == (Reasoning("hm"), Text("ab"), ROME, PING)


def test_text_comes_after_the_calls_where_the_family_writes_it_so() -> None:
    result = arrange_parts(get_format("gemma4"), Reply.of("a", ROME, Reasoning("hm")))
    assert result.parts == (Reasoning("hm"), ROME, Text("a"))


def test_a_format_without_order_keeps_the_replys() -> None:
    mixed: tuple[ReplyPart, ...] = (Text("a"), ROME, Reasoning("hm"), PING, Text("b"))
    assert arrange_parts(get_format("harmony"), Reply(mixed)).parts == mixed


def test_what_else_is_known_of_a_reply_stays() -> None:
    reply = Reply((Text("a"),), (Diagnostic("odd", "something"),), FinishReason.LENGTH)
    assert arrange_parts(get_format("hermes"), reply) == reply


def test_where_there_are_two_places_for_text_the_last_is_for_what_ends_the_turn() -> None:
    turn = get_format("harmony").reply
    alone = blocks(turn, Reply.of("bye"))
    before = blocks(turn, Reply.of("wait", ROME))
    assert alone[0].item is turn.items[3]
    assert before[0].item is turn.items[1]
    assert before[1].follows_text
