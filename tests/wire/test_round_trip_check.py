"""What counts as the same when a rendering is read back: ids where the wire has them, numbers as they were written."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ferrule import Reasoning, Reply, Text, ToolCall, UnrenderableError, get_format
from ferrule.core.reply import ReplyPart
from ferrule.wire.round_trip_check import check_reads_back, says_the_same
from wire.weather import TOOLS

ROME = ToolCall.of("get_weather", '{"city": "Rome", "days": 1}', id="c1")


def with_arguments(text: str) -> ToolCall:
    return ToolCall.of("get_weather", text, id="c1")


@pytest.mark.parametrize(
    "got",
    [
        Text("Rome"),
        replace(ROME, complete=False),
        ToolCall.of("ping", ROME.function.arguments, id="c1"),
        with_arguments('{"city": "Rome"}'),
        with_arguments('{"city": "Rome", "days": 1.0}'),
        with_arguments('{"city": "Rome", "days": "1"}'),
        with_arguments('{"city": "Rome", "days": true}'),
    ],
)
def test_another_call_is_not_the_same(got: ReplyPart) -> None:
    assert not says_the_same(ROME, got, with_ids=False)


def test_the_order_of_arguments_does_not_matter() -> None:
    assert says_the_same(ROME, with_arguments('{"days": 1, "city": "Rome"}'), with_ids=True)


def test_an_id_matters_where_the_wire_has_it_and_one_was_wanted() -> None:
    other = replace(ROME, id="c2")
    assert not says_the_same(ROME, other, with_ids=True)
    assert says_the_same(ROME, other, with_ids=False)
    assert says_the_same(replace(ROME, id=""), other, with_ids=True)


def test_text_is_not_reasoning() -> None:
    assert says_the_same(Text("a"), Text("a"), with_ids=True)
    assert not says_the_same(Text("a"), Reasoning("a"), with_ids=True)


def test_a_text_that_says_more_or_less_than_was_meant_is_refused() -> None:
    hermes = get_format("hermes")
    call = '<tool_call>\n{"name": "ping", "arguments": {}}\n</tool_call>'
    check_reads_back(hermes, Reply.of(ToolCall.of("ping")), call, TOOLS, 0)
    with pytest.raises(UnrenderableError, match="more would be read than was written"):
        check_reads_back(hermes, Reply.of(ToolCall.of("ping")), f"{call}\n{call}", TOOLS, 0)
    with pytest.raises(UnrenderableError, match="reads as markup"):
        check_reads_back(hermes, Reply.of(ToolCall.of("ping"), ToolCall.of("ping")), call, TOOLS, 0)
