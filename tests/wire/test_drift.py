"""Calls in another spelling than the model's format are read where the model made them, and left where it quotes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ferrule import Reply, ToolDefinition, fold
from ferrule.core.event import Event
from ferrule.wire.drift import DriftReader
from ferrule.wire.parser import Parser
from ferrule.wire.registry import get_format

HERMES = get_format("hermes")
TOOLS = [
    ToolDefinition(
        "get_weather",
        "",
        {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["city"],
        },
    ),
    ToolDefinition("ping", "", {"type": "object", "properties": {}}),
]
LINE = '{"name": "get_weather", "arguments": {"city": "Rome"}}'
PRETTY = '{\n  "name": "get_weather",\n  "arguments": {\n    "city": "Rome"\n  }\n}'
FENCED = f"```json\n{PRETTY}\n```"
SPELLINGS = {
    "bare_json": LINE,
    "bare_json, several lines": PRETTY,
    "fenced_json": FENCED,
    "fenced_json, one line": f"```json {LINE} ```",
    "xlam": f"[{LINE}]",
    "xlam, several lines": f"[\n  {LINE}\n]",
}


def read(text: str, sizes: list[int] | None = None) -> tuple[Reply, dict[int, str]]:
    """Parse a reply in pieces of these sizes, then the rest."""
    parser, drift = Parser(HERMES, TOOLS), DriftReader(HERMES, TOOLS)
    events: list[Event] = []
    at = 0
    for size in sizes or []:
        events += drift.read(parser.feed(text[at : at + size]))
        at += size
    events += drift.read(parser.feed(text[at:]))
    events += [*drift.read(parser.close()), *drift.close()]
    return fold(events), drift.drifted


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize(
    "before, after", [("", ""), ("\n", "\n\n"), ("Let me look.\n", ""), ("", "\nThat is the call.")]
)
def test_a_call_that_begins_or_ends_the_reply_is_read(spelling: str, before: str, after: str) -> None:
    reply, drifted = read(before + SPELLINGS[spelling] + after)
    assert [(call.name, call.arguments) for call in reply.calls] == [("get_weather", {"city": "Rome"})]
    assert drifted == {0: f"hermes -> {spelling.partition(',')[0]}"}
    assert reply.text.strip() == (before + after).strip()


@pytest.mark.parametrize(
    "text",
    [
        f"You call it like this:\n{FENCED}\nThe result is the weather.",
        f"First:\n\n{LINE}\n\nThen read the answer.",
        f"Use {LINE} for that.",
        f"{LINE} is how a call looks.",
        f"- {LINE}\n- {LINE}",
        f"> {LINE}",
        f"1. {LINE}",
        f"    print('{LINE}')",
        f"```python\n{LINE}\n```",
        f"```python\ncall = [\n{LINE}\n]\n```",
        f"````md\n{FENCED}\n````",
        f"| call | meaning |\n|---|---|\n| `{LINE}` | weather |",
        '{"a": 1}',
        '```json\n{"a": 1}\n```',
        "{",
        "```json",
        "```\n\n```",
        "{ and } are braces",
    ],
)
def test_what_a_model_only_quotes_stays_text_to_the_letter(text: str) -> None:
    reply, drifted = read(text)
    assert (reply.calls, reply.incomplete, reply.text, drifted) == ((), (), text, {})


@pytest.mark.parametrize(
    "text",
    [
        LINE.replace('"Rome"', "7"),
        FENCED.replace('"city"', '"town"'),
        LINE[:-4],
    ],
)
def test_what_looks_like_a_call_and_is_none_stays_text_and_is_reported(text: str) -> None:
    reply, _ = read(text)
    assert (reply.calls, reply.incomplete, reply.text) == ((), (), text)
    assert [diagnostic.code for diagnostic in reply.diagnostics] == ["looks_like_a_call"]


def test_a_tool_that_was_not_offered_is_not_called() -> None:
    text = LINE.replace("get_weather", "delete_everything")
    reply, drifted = read(text)
    assert (reply.calls, reply.text, drifted) == ((), text, {})


def test_several_calls_in_one_reply_are_read_in_order() -> None:
    reply, drifted = read(f"{LINE}\n" + LINE.replace("Rome", "Oslo"))
    assert [call.arguments["city"] for call in reply.calls] == ["Rome", "Oslo"]
    assert len({call.id for call in reply.calls}) == len(drifted) == 2


def test_calls_in_the_formats_own_spelling_are_not_drifted() -> None:
    reply, drifted = read(f"Now.\n<tool_call>\n{LINE}\n</tool_call>")
    assert len(reply.calls) == 1
    assert drifted == {}


def test_a_quoted_call_before_the_formats_own_is_text() -> None:
    reply, drifted = read(f"As in\n{FENCED}\n<tool_call>\n{LINE}\n</tool_call>")
    assert len(reply.calls) == 1
    assert (drifted, "```json" in reply.text) == ({}, True)


PARTS = st.lists(
    st.sampled_from([LINE, PRETTY, FENCED, "```", "```json", "{", "}", "\n", "\n\n", " ", "Some prose.", "- ", "`"]),
    max_size=8,
)


@settings(max_examples=150)
@given(PARTS, st.lists(st.integers(1, 40), max_size=12))
def test_every_way_of_cutting_the_text_gives_the_same_reply(parts: list[str], sizes: list[int]) -> None:
    text = "".join(parts)
    (whole, drifted), (cut, drifted_in_pieces) = read(text), read(text, sizes)
    assert [(call.name, call.function.arguments) for call in cut.calls] == [
        (call.name, call.function.arguments) for call in whole.calls
    ]
    assert (cut.text, drifted_in_pieces) == (whole.text, drifted)


@settings(max_examples=150)
@given(PARTS)
def test_without_a_call_every_character_stays(parts: list[str]) -> None:
    text = "".join(parts)
    reply, drifted = read(text)
    if not drifted:
        assert reply.text == text
