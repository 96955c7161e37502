"""What a model is held to and writes, shown to whoever asks for it, and costing nothing to whoever does not."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.test_text_skip import MindedGenerator
from engines.tools import PING, PLAIN_TEMPLATE, WEATHER, asked
from ferrule import CallStart, ChatMessage, Event, RuleShown, TextDelta, ToolCallRequest, ToolChoice, WireText, fold
from ferrule.core.event import SHOWN
from ferrule.engines.engine import Engine
from ferrule.engines.fake import FakeGenerator
from ferrule.engines.generator import ModelFacts
from ferrule.engines.text.engine import TextEngine, TextOptions

PARIS = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris", "days": 2}}\n</tool_call>'
FACTS = ModelFacts(template=PLAIN_TEMPLATE)
ONE = replace(asked(tools=(WEATHER, PING), choice=ToolChoice.required()), parallel_tool_calls=False)


def events_of(engine: Engine, request: ToolCallRequest) -> list[Event]:
    async def told() -> list[Event]:
        return [event async for event in engine.stream(request)]

    return asyncio.run(told())


def shown(engine: Engine, request: ToolCallRequest) -> list[Event]:
    return events_of(engine, replace(request, shows_wire=True))


def same_ids(events: list[Event]) -> list[Event]:
    """Ids are drawn at random."""
    return [replace(event, id=str(event.index)) if isinstance(event, CallStart) else event for event in events]


def wire_of(events: list[Event]) -> list[WireText]:
    return [event for event in events if isinstance(event, WireText)]


@given(st.sampled_from([PARIS, f"One moment.\n{PARIS}\n{PARIS}", "It is <b>sunny", ""]), st.integers(1, 30))
def test_the_text_is_shown_to_the_letter_and_nothing_else_changes(text: str, size: int) -> None:
    engines = [TextEngine(FakeGenerator([text], FACTS, size=size), TextOptions(format="hermes")) for _ in range(2)]
    plain, told = same_ids(events_of(engines[0], asked())), same_ids(shown(engines[1], asked()))
    assert [event for event in told if event.__class__ not in SHOWN] == plain
    assert not any(event.__class__ in SHOWN for event in plain)
    assert "".join(piece.text for piece in wire_of(told)) == text
    assert fold(told) == fold(plain)


def test_the_rule_comes_first_and_is_what_the_backend_got() -> None:
    backend = FakeGenerator([PARIS], FACTS)
    told = shown(TextEngine(backend, TextOptions(format="hermes")), asked())
    grammar = backend.asked[0].grammar
    assert grammar is not None
    assert told[0] == RuleShown("hermes", "lark", grammar.text, backend.asked[0].prompt)
    assert sum(isinstance(event, RuleShown) for event in told) == 1


def test_a_grammar_that_waits_for_a_mark_is_shown_with_its_triggers() -> None:
    backend = FakeGenerator([PARIS], FACTS, targets=("gbnf",))
    told = shown(TextEngine(backend, TextOptions(format="hermes")), asked())
    grammar = backend.asked[0].grammar
    assert grammar is not None
    assert isinstance(told[0], RuleShown)
    assert told[0].triggers == grammar.triggers != ()


def test_text_comes_before_what_is_read_out_of_it() -> None:
    told = shown(TextEngine(FakeGenerator(["Well."], FACTS, size=9), TextOptions(format="hermes")), asked())
    kinds = [type(event) for event in told]
    assert kinds.index(WireText) < kinds.index(TextDelta)


def test_skipped_text_is_shown_as_forced_and_generated_text_is_not() -> None:
    told = shown(TextEngine(MindedGenerator(PARIS), TextOptions(format="hermes", skips=True)), ONE)
    pieces = wire_of(told)
    assert "".join(piece.text for piece in pieces) == PARIS
    forced = "".join(piece.text for piece in pieces if piece.is_forced)
    assert forced.startswith("<tool_call>")
    assert "Paris" in "".join(piece.text for piece in pieces if not piece.is_forced)
    assert "Paris" not in forced
    assert any(isinstance(event, CallStart) for event in told)


@pytest.mark.parametrize("options", [TextOptions(format="hermes", is_constrained=False)])
def test_a_model_that_is_held_to_nothing_shows_no_rule(options: TextOptions) -> None:
    told = shown(
        TextEngine(FakeGenerator(["Well."], FACTS), options), ToolCallRequest(messages=(ChatMessage.user("so?"),))
    )
    assert not any(isinstance(event, RuleShown) for event in told)
    assert "".join(piece.text for piece in wire_of(told)) == "Well."
