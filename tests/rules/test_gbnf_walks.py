"""A model that writes nonsense wherever the grammar lets it: what it wrote must still be calls that fit."""

from __future__ import annotations

import random

import jsonschema
import pytest

from ferrule import ToolCall, ToolChoice, ToolDefinition, formats, parse
from ferrule.core.json_schema import JsonSchema
from ferrule.rules.gbnf import emit_gbnf
from ferrule.wire.rule_builder import ReasoningMode, bind
from laws.replies import own_markers
from rules.gbnf_acceptor import Acceptor, Class

FORMATS = formats()
WALKS = 4
MOST = 1500
TOOLS = (
    ToolDefinition.build("set_light")
    .parameter("room", JsonSchema.enum(["hall", "kitchen"]), required=True)
    .parameter("level", JsonSchema.integer())
    .parameter("note", {"type": "string", "maxLength": 24})
    .parameter("either", {"type": ["string", "integer"]})
    .done(),
    ToolDefinition.build("book_table")
    .parameter("guests", {"type": "array", "items": {"type": "string", "maxLength": 9}, "maxItems": 3}, required=True)
    .parameter("outside", JsonSchema.boolean())
    .done(),
)
PARAMETERS = {tool.name: dict(tool.parameters) for tool in TOOLS}


def written(taken: Acceptor, luck: random.Random, markers: list[str]) -> str | None:
    """Characters one after another, each allowed, with a pull towards markup; None when no end was found."""
    text = ""
    while len(text) < MOST:
        if taken.accepts(text) and luck.random() < 0.5:
            return text
        marker = luck.choice(markers)
        size = taken.accepted_length(text + marker) - len(text)
        if luck.random() < 0.3 and size > 0:
            text += marker[:size]
            continue
        classes = taken.next_classes(text)
        if not classes:
            return text if taken.accepts(text) else None
        text += character(luck.choice(classes), luck)
    return None


def character(wanted: Class, luck: random.Random) -> str:
    if not wanted.negated:
        return chr(luck.randint(*luck.choice(wanted.ranges)))
    return luck.choice([char for char in "aZ0 \n\t<>[]{}|'\":,=\\/é😀\u2028\x7f" if wanted.admits(ord(char))])


@pytest.mark.parametrize("name", FORMATS)
def test_a_walk_through_the_grammar_ends_in_calls_that_fit(name: str) -> None:
    form = FORMATS[name]
    taken = Acceptor(emit_gbnf(bind(form, TOOLS, ToolChoice.required(), reasoning=ReasoningMode.OFF)).text)
    luck = random.Random(name)
    walks = [written(taken, luck, sorted(own_markers(form))) for _ in range(WALKS)]
    finished = [text for text in walks if text is not None]
    assert finished, "no walk found an end"
    for text in finished:
        reply = parse(form, text, TOOLS)
        assert reply.parts
        for call in reply.parts:
            assert isinstance(call, ToolCall), f"{text!r} reads as {reply}"
            assert call.complete, f"{text!r} reads as {reply}"
            jsonschema.validate(call.arguments, PARAMETERS[call.name])
