"""A rule is made once however many ask for it, and whoever asks may go away, or ask from another loop."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from engines.tools import PLAIN_TEMPLATE, WEATHER, asked
from ferrule import Reply, ToolChoice
from ferrule.engines.fake import FakeGenerator
from ferrule.engines.generator import ModelFacts
from ferrule.engines.text import constraint
from ferrule.engines.text.engine import TextEngine, TextOptions
from ferrule.rules.rule import Rule

CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
REQUEST = asked(tools=(WEATHER,), choice=ToolChoice.required())
MOST_SECONDS = 20


def engine_with(answers: int) -> TextEngine:
    return TextEngine(
        FakeGenerator([CALL] * answers, ModelFacts(template=PLAIN_TEMPLATE)), TextOptions(format="hermes")
    )


def slowed(monkeypatch: pytest.MonkeyPatch, wait: Any) -> list[None]:
    """What was made so far, one for each; `wait` holds up every making."""
    made: list[None] = []
    bind = constraint.bind

    def slow(*given: Any, **named: Any) -> Rule:
        made.append(None)
        wait(MOST_SECONDS)
        return bind(*given, **named)

    monkeypatch.setattr(constraint, "bind", slow)
    return made


def test_many_who_ask_at_once_have_it_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = threading.Event()
    made = slowed(monkeypatch, go_on.wait)
    engine = engine_with(8)

    async def replies() -> list[Reply]:
        asking = [asyncio.ensure_future(engine.generate_with_tools(REQUEST)) for _ in range(8)]
        await asyncio.sleep(0.05)
        go_on.set()
        return await asyncio.gather(*asking)

    assert all(reply.calls for reply in asyncio.run(replies()))
    assert len(made) == 1


def test_who_goes_away_does_not_take_it_from_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = threading.Event()
    made = slowed(monkeypatch, go_on.wait)
    engine = engine_with(2)

    async def reply() -> Reply:
        first = asyncio.ensure_future(engine.generate_with_tools(REQUEST))
        second = asyncio.ensure_future(engine.generate_with_tools(REQUEST))
        await asyncio.sleep(0.05)
        first.cancel()
        go_on.set()
        return await second

    assert asyncio.run(reply()).calls
    assert len(made) == 1


def test_two_loops_that_ask_for_one_rule_at_once_are_both_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    # Both are in the middle of it before either goes on.
    both = threading.Barrier(2)
    slowed(monkeypatch, both.wait)
    engine = engine_with(2)
    with ThreadPoolExecutor(2) as threads:
        replies = list(threads.map(lambda _: asyncio.run(engine.generate_with_tools(REQUEST)), range(2)))
    assert all(reply.calls for reply in replies)
