"""Law 6 for texts that are nearly replies: calls of every format with marks added, doubled, cut or nested.

Each is read in one feed and in pieces. Nothing raises, both give the same, every character comes out once, and the
arguments of a complete call are a JSON object. `scripts/long feeds` takes a hundred thousand of them.
"""

from __future__ import annotations

import json

import pytest

from ferrule.core.event import Event
from ferrule.core.reply import fold
from ferrule.wire.drift import DriftReader
from ferrule.wire.format import Format
from ferrule.wire.parser import Parser
from ferrule.wire.registry import all_formats, preset
from laws.cuts import essence
from laws.hard_texts import cut, mutated_text
from laws.replies import TOOLS
from sampling import seed

FORMATS = all_formats()
NAMES = {tool.name for tool in TOOLS}
EACH = 84


def check(form: Format, text: str, seed_of_cuts: str) -> None:
    """Read a text in one feed and in pieces, and assert what must hold for any text."""
    parser, drift = Parser(form, TOOLS, trace=True), DriftReader(form, TOOLS)
    events = [*parser.feed(text), *parser.close()]
    drift.read(events)
    drift.close()
    reply = fold(events)

    spans = parser.spans
    assert [span.start for span in spans] == [0, *(span.end for span in spans)][: len(spans)]
    assert (spans[-1].end if spans else 0) == len(text)
    for kind, kept in (("text", reply.text), ("reasoning", reply.reasoning)):
        assert "".join(text[span.start : span.end] for span in spans if span.kind == kind) == kept

    takes_only_offered = all(item.only_offered for item in (form.calls, *form.reply.also))
    for call in reply.calls:
        # Numbers as text: of more digits than Python reads.
        assert isinstance(json.loads(call.function.arguments, parse_int=str, parse_float=str), dict)
        assert call.name in NAMES or not takes_only_offered

    pieces: list[Event] = []
    parser = Parser(form, TOOLS)
    for piece in cut(text, seed_of_cuts):
        pieces += parser.feed(piece)
    pieces += parser.close()
    assert essence(fold(pieces)) == essence(reply)


@pytest.mark.parametrize("name", FORMATS)
def test_a_mutated_reply_is_read_the_same_in_one_feed_and_in_pieces(name: str) -> None:
    form = FORMATS[name]
    for number in range(EACH):
        key = f"{seed()} {name} {number}"
        text = mutated_text(form, key)
        try:
            check(form, text, key)
        except Exception as error:
            raise AssertionError(f"{name}: {text!r:.2000}") from error


@pytest.mark.parametrize("members", [("hermes", "llama3", "bare_json"), ("mistral_v11", "kimi_k2", "fenced_json")])
def test_a_mutated_reply_of_a_preset_is_read_the_same(members: tuple[str, ...]) -> None:
    form = preset("any of them", members)
    for number in range(EACH):
        key = f"{seed()} {members} {number}"
        check(form, mutated_text(FORMATS[members[number % len(members)]], key), key)
