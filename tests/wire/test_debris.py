"""Markup that a model leaves around its calls does not reach the user; the same markup in an answer does."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ferrule import Reply, ToolDefinition, fold
from ferrule.core.event import Event
from ferrule.wire.drift import DriftReader
from ferrule.wire.parser import Parser
from ferrule.wire.registry import get_format

HERMES = get_format("hermes")
TOOLS = [ToolDefinition("ping", "", {"type": "object", "properties": {}})]
CALL = '<tool_call>\n{"name": "ping", "arguments": {}}\n</tool_call>'
FENCED = '```json\n{"name": "ping", "arguments": {}}\n```'


def read(text: str, cuts: list[int] | None = None) -> Reply:
    parser, drift = Parser(HERMES, TOOLS), DriftReader(HERMES, TOOLS)
    events: list[Event] = []
    places = [0, *sorted(cuts or []), len(text)]
    for start, end in pairwise(places):
        events += drift.read(parser.feed(text[start:end]))
    events += [*drift.read(parser.close()), *drift.close()]
    return fold(events)


DEBRIS = {
    "a second end marker": f"{CALL}\n</tool_call>",
    "another family's end marker": f"{CALL}[/TOOL_CALLS]",
    "a made-up result": f'{CALL}\n<tool_response>\n{{"ok": true}}\n</tool_response>',
    "a made-up result that is cut off": f"{CALL}\n<tool_response>\nok",
    "a fence around the call": f"```json\n{CALL}\n```",
    "a fence of another name": f"```xml\n{CALL}\n```\n",
    "a made-up result between calls": f"{CALL}\n<tool_response>ok</tool_response>\n{CALL}",
    "debris after a drifted call": f"{FENCED}\n<tool_response>\nok\n</tool_response>",
}


@pytest.mark.parametrize("kind", DEBRIS)
def test_debris_around_a_call_is_reported_and_not_shown(kind: str) -> None:
    reply = read(DEBRIS[kind])
    assert reply.calls
    assert not reply.text.strip()
    code = "made_up_result" if "result" in kind or "drifted" in kind else "stray_mark"
    assert code in [diagnostic.code for diagnostic in reply.diagnostics]


def test_text_around_debris_is_kept() -> None:
    reply = read(f"Let me see.\n```json\n{CALL}\n```\n<tool_response>ok</tool_response>\nThat is all.")
    assert " ".join(reply.text.split()) == "Let me see. That is all."
    assert len(reply.calls) == 1


@pytest.mark.parametrize(
    "text",
    [
        "A result is written as <tool_response>ok</tool_response> in this template.",
        "<tool_response>\nok\n</tool_response>",
        "A call ends with [/TOOL_CALLS].",
        "```json\n{}\n```",
        "```",
        "```json",
        f"{CALL}\nI pinged it.\n```\nok\n```\n[/TOOL_CALLS]",
        f"{CALL}\n```python\nprint(1)\n```",
    ],
)
def test_the_same_markup_in_an_answer_is_text(text: str) -> None:
    shown = text.replace(CALL, "")
    assert read(text).text.strip() == shown.strip()


PIECES = [CALL, FENCED, "\n", "```", "```json\n", "</tool_call>", "<tool_response>", "</tool_response>", "Hm. ", "`"]


@settings(max_examples=400)
@given(st.lists(st.sampled_from(PIECES), max_size=6).map("".join), st.data())
def test_where_the_text_is_cut_changes_nothing(text: str, data: st.DataObject) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=4))
    whole, cut = read(text), read(text, cuts)
    assert (whole.text, whole.diagnostics) == (cut.text, cut.diagnostics)
    assert [call.function for call in whole.calls] == [call.function for call in cut.calls]


@settings(max_examples=400)
@given(st.lists(st.sampled_from(PIECES), max_size=6).map("".join))
def test_every_character_is_text_or_call_or_reported(text: str) -> None:
    reply = read(text)
    plain = reply.text + "".join(diagnostic.text for diagnostic in reply.diagnostics)
    for mark in ("<tool_response>", "</tool_response>", "Hm. "):
        assert plain.count(mark) == text.count(mark)
