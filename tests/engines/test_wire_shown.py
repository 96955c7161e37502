"""The grammar and the raw model output are sent as events if requested, and cost nothing otherwise."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.test_text_skip import MindedGenerator
from engines.tools import PING, PLAIN_TEMPLATE, WEATHER, make_request
from ferrule import CallStart, ChatMessage, Event, RuleShown, TextDelta, ToolCallRequest, ToolChoice, WireText, fold
from ferrule.core.event import DEBUG_EVENTS
from ferrule.engines.engine import Engine
from ferrule.engines.fake import FakeGenerator
from ferrule.engines.generator import ModelFacts
from ferrule.engines.text.engine import TextEngine, TextOptions

PARIS = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris", "days": 2}}\n</tool_call>'
FACTS = ModelFacts(template=PLAIN_TEMPLATE)
ONE = replace(make_request(tools=(WEATHER, PING), choice=ToolChoice.required()), parallel_tool_calls=False)


def events_of(engine: Engine, request: ToolCallRequest) -> list[Event]:
    async def collect() -> list[Event]:
        return [event async for event in engine.stream(request)]

    return asyncio.run(collect())


def events_with_wire(engine: Engine, request: ToolCallRequest) -> list[Event]:
    return events_of(engine, replace(request, shows_wire=True))


def same_ids(events: list[Event]) -> list[Event]:
    """Replace the ids, which are random."""
    return [replace(event, id=str(event.index)) if isinstance(event, CallStart) else event for event in events]


def wire_of(events: list[Event]) -> list[WireText]:
    return [event for event in events if isinstance(event, WireText)]


@given(st.sampled_from([PARIS, f"One moment.\n{PARIS}\n{PARIS}", "It is <b>sunny", ""]), st.integers(1, 30))
def test_the_raw_text_is_shown_exactly_and_nothing_else_changes(text: str, size: int) -> None:
    engines = [TextEngine(FakeGenerator([text], FACTS, size=size), TextOptions(format="hermes")) for _ in range(2)]
    plain, events_shown = (
        same_ids(events_of(engines[0], make_request())),
        same_ids(events_with_wire(engines[1], make_request())),
    )
    assert [event for event in events_shown if event.__class__ not in DEBUG_EVENTS] == plain
    assert not any(event.__class__ in DEBUG_EVENTS for event in plain)
    assert "".join(piece.text for piece in wire_of(events_shown)) == text
    assert fold(events_shown) == fold(plain)


def test_the_grammar_comes_first_and_is_what_the_backend_got() -> None:
    backend = FakeGenerator([PARIS], FACTS)
    events_shown = events_with_wire(TextEngine(backend, TextOptions(format="hermes")), make_request())
    grammar = backend.requests[0].grammar
    assert grammar is not None
    assert events_shown[0] == RuleShown("hermes", "lark", grammar.text, backend.requests[0].prompt)
    assert sum(isinstance(event, RuleShown) for event in events_shown) == 1


def test_a_grammar_with_triggers_is_shown_with_them() -> None:
    backend = FakeGenerator([PARIS], FACTS, targets=("gbnf",))
    events_shown = events_with_wire(TextEngine(backend, TextOptions(format="hermes")), make_request())
    grammar = backend.requests[0].grammar
    assert grammar is not None
    assert isinstance(events_shown[0], RuleShown)
    assert events_shown[0].triggers == grammar.triggers != ()


def test_raw_text_comes_before_the_events_parsed_from_it() -> None:
    events_shown = events_with_wire(
        TextEngine(FakeGenerator(["Well."], FACTS, size=9), TextOptions(format="hermes")), make_request()
    )
    kinds = [type(event) for event in events_shown]
    assert kinds.index(WireText) < kinds.index(TextDelta)


def test_skipped_text_is_shown_as_forced_and_generated_text_is_not() -> None:
    events_shown = events_with_wire(TextEngine(MindedGenerator(PARIS), TextOptions(format="hermes", skips=True)), ONE)
    pieces = wire_of(events_shown)
    assert "".join(piece.text for piece in pieces) == PARIS
    forced = "".join(piece.text for piece in pieces if piece.is_forced)
    assert forced.startswith("<tool_call>")
    assert "Paris" in "".join(piece.text for piece in pieces if not piece.is_forced)
    assert "Paris" not in forced
    assert any(isinstance(event, CallStart) for event in events_shown)


@pytest.mark.parametrize("options", [TextOptions(format="hermes", is_constrained=False)])
def test_without_a_grammar_no_rule_is_shown(options: TextOptions) -> None:
    events_shown = events_with_wire(
        TextEngine(FakeGenerator(["Well."], FACTS), options), ToolCallRequest(messages=(ChatMessage.user("so?"),))
    )
    assert not any(isinstance(event, RuleShown) for event in events_shown)
    assert "".join(piece.text for piece in wire_of(events_shown)) == "Well."
