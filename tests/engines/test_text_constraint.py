"""A constraint is built once for many requests; a request may be cancelled or come from another event loop."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from engines.tools import PLAIN_TEMPLATE, WEATHER, make_request
from ferrule import Reply, ToolChoice
from ferrule.engines.fake import FakeGenerator
from ferrule.engines.generator import ModelFacts
from ferrule.engines.text import constraint
from ferrule.engines.text.engine import TextEngine, TextOptions
from ferrule.rules.rule import Rule

CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
REQUEST = make_request(tools=(WEATHER,), choice=ToolChoice.required())
MAX_SECONDS = 20


def engine_with(answers: int) -> TextEngine:
    return TextEngine(
        FakeGenerator([CALL] * answers, ModelFacts(template=PLAIN_TEMPLATE)), TextOptions(format="hermes")
    )


def slow_bind(monkeypatch: pytest.MonkeyPatch, wait: Any) -> list[None]:
    """Make every build call `wait` first; returns a list with one entry for each build."""
    builds: list[None] = []
    bind = constraint.bind

    def slow(*positional: Any, **keywords: Any) -> Rule:
        builds.append(None)
        wait(MAX_SECONDS)
        return bind(*positional, **keywords)

    monkeypatch.setattr(constraint, "bind", slow)
    return builds


def test_simultaneous_requests_build_the_constraint_once(monkeypatch: pytest.MonkeyPatch) -> None:
    proceed = threading.Event()
    builds = slow_bind(monkeypatch, proceed.wait)
    engine = engine_with(8)

    async def replies() -> list[Reply]:
        tasks = [asyncio.ensure_future(engine.generate_with_tools(REQUEST)) for _ in range(8)]
        await asyncio.sleep(0.05)
        proceed.set()
        return await asyncio.gather(*tasks)

    assert all(reply.calls for reply in asyncio.run(replies()))
    assert len(builds) == 1


def test_a_cancelled_request_does_not_cancel_the_build_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    proceed = threading.Event()
    builds = slow_bind(monkeypatch, proceed.wait)
    engine = engine_with(2)

    async def reply() -> Reply:
        first = asyncio.ensure_future(engine.generate_with_tools(REQUEST))
        second = asyncio.ensure_future(engine.generate_with_tools(REQUEST))
        await asyncio.sleep(0.05)
        first.cancel()
        proceed.set()
        return await second

    assert asyncio.run(reply()).calls
    assert len(builds) == 1


def test_two_loops_that_need_one_constraint_at_once_both_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    # Both are in the middle of the build before either continues.
    both = threading.Barrier(2)
    slow_bind(monkeypatch, both.wait)
    engine = engine_with(2)
    with ThreadPoolExecutor(2) as threads:
        replies = list(threads.map(lambda _: asyncio.run(engine.generate_with_tools(REQUEST)), range(2)))
    assert all(reply.calls for reply in replies)
