"""Random text under a grammar: whatever the grammar allows must parse to calls that fit."""

from __future__ import annotations

import random

import jsonschema
import pytest

from ferrule import ToolCall, ToolChoice, ToolDefinition
from ferrule.core.json_schema import JsonSchema
from ferrule.formats import all_formats, parse
from ferrule.rules.gbnf import emit_gbnf
from ferrule.wire.rule_builder import ReasoningMode, bind
from laws.replies import own_markers
from rules.gbnf_acceptor import Acceptor, Class

FORMATS = all_formats()
WALKS = 4
MAX_CHARACTERS = 1500
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


def random_text(acceptor: Acceptor, rng: random.Random, markers: list[str]) -> str | None:
    """Random characters that the grammar allows, with a preference for markup; None if no end was reached."""
    text = ""
    while len(text) < MAX_CHARACTERS:
        if acceptor.accepts(text) and rng.random() < 0.5:
            return text
        marker = rng.choice(markers)
        size = acceptor.accepted_length(text + marker) - len(text)
        if rng.random() < 0.3 and size > 0:
            text += marker[:size]
            continue
        classes = acceptor.next_classes(text)
        if not classes:
            return text if acceptor.accepts(text) else None
        text += character(rng.choice(classes), rng)
    return None


def character(allowed: Class, rng: random.Random) -> str:
    if not allowed.negated:
        return chr(rng.randint(*rng.choice(allowed.ranges)))
    return rng.choice([char for char in "aZ0 \n\t<>[]{}|'\":,=\\/é😀\u2028\x7f" if allowed.admits(ord(char))])


@pytest.mark.parametrize("name", FORMATS)
def test_a_walk_through_the_grammar_ends_in_calls_that_fit(name: str) -> None:
    form = FORMATS[name]
    acceptor = Acceptor(emit_gbnf(bind(form, TOOLS, ToolChoice.required(), reasoning=ReasoningMode.OFF)).text)
    rng = random.Random(name)
    walks = [random_text(acceptor, rng, sorted(own_markers(form))) for _ in range(WALKS)]
    finished = [text for text in walks if text is not None]
    assert finished, "no walk found an end"
    for text in finished:
        reply = parse(form, text, TOOLS)
        assert reply.parts
        for call in reply.parts:
            assert isinstance(call, ToolCall), f"{text!r} reads as {reply}"
            assert call.complete, f"{text!r} reads as {reply}"
            jsonschema.validate(call.arguments, PARAMETERS[call.name])
