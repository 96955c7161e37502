"""When parts count as equal in the round trip check: ids if the format writes them, numbers as they are written."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ferrule import Reasoning, Reply, Text, ToolCall, UnrenderableError
from ferrule.core.reply import ReplyPart
from ferrule.formats import get_format
from ferrule.wire.renderer import check_round_trip, is_same_part
from wire.weather import TOOLS

ROME = ToolCall.of("get_weather", '{"city": "Rome", "days": 1}', id="c1")


def with_arguments(text: str) -> ToolCall:
    return ToolCall.of("get_weather", text, id="c1")


@pytest.mark.parametrize(
    "other",
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
def test_another_call_is_not_the_same(other: ReplyPart) -> None:
    assert not is_same_part(ROME, other, with_ids=False)


def test_the_order_of_arguments_does_not_matter() -> None:
    assert is_same_part(ROME, with_arguments('{"days": 1, "city": "Rome"}'), with_ids=True)


def test_an_id_matters_where_the_wire_has_it_and_one_was_wanted() -> None:
    other = replace(ROME, id="c2")
    assert not is_same_part(ROME, other, with_ids=True)
    assert is_same_part(ROME, other, with_ids=False)
    assert is_same_part(replace(ROME, id=""), other, with_ids=True)


def test_text_is_not_reasoning() -> None:
    assert is_same_part(Text("a"), Text("a"), with_ids=True)
    assert not is_same_part(Text("a"), Reasoning("a"), with_ids=True)


def test_a_text_that_says_more_or_less_than_was_meant_is_refused() -> None:
    hermes = get_format("hermes")
    call = '<tool_call>\n{"name": "ping", "arguments": {}}\n</tool_call>'
    check_round_trip(hermes, Reply.of(ToolCall.of("ping")), call, TOOLS, 0)
    with pytest.raises(UnrenderableError, match="parsing it again would give more parts than were rendered"):
        check_round_trip(hermes, Reply.of(ToolCall.of("ping")), f"{call}\n{call}", TOOLS, 0)
    with pytest.raises(UnrenderableError, match="parses as markup"):
        check_round_trip(hermes, Reply.of(ToolCall.of("ping"), ToolCall.of("ping")), call, TOOLS, 0)
