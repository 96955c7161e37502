"""Engines behind one model's name."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from ferrule.core.event import Event, TextDelta
from ferrule.core.message import ChatMessage
from ferrule.core.reply import Reply
from ferrule.core.request import ToolCallRequest
from ferrule.engines.engine import Engine, Traits
from ferrule.engines.fake import FakeEngine
from ferrule.errors import (
    EngineError,
    EngineTimeoutError,
    EngineUnavailableError,
    NotFoundError,
    UnsupportedError,
)
from ferrule.server.router import Health, Replica, RoutedEngine, Router

ASKED = ToolCallRequest(messages=(ChatMessage.user("hello"),))


class Failing(Engine):
    """Says so many events, then fails."""

    def __init__(self, error: EngineError, after: int = 0) -> None:
        self.traits = Traits(name="failing")
        self.asked = 0
        self._error = error
        self._after = after

    async def stream(self, request: ToolCallRequest) -> AsyncGenerator[Event, None]:
        self.asked += 1
        for _ in range(self._after):
            yield TextDelta("said ")
        raise self._error

    async def close(self) -> None:
        return


def routed(*engines: Engine, balanced: bool = False) -> RoutedEngine:
    return RoutedEngine("m", [Replica(f"e{at}", one) for at, one in enumerate(engines)], balanced=balanced)


async def said(engine: Engine) -> Reply:
    return await engine.generate_with_tools(ASKED)


@pytest.mark.parametrize(
    "error", [EngineUnavailableError("gone"), EngineTimeoutError("slow"), EngineError("broke", code="broken_off")]
)
def test_an_engine_that_fails_before_it_spoke_is_stood_in_for(error: EngineError) -> None:
    first = Failing(error)
    engine = routed(first, FakeEngine([Reply.of("well")]))
    assert asyncio.run(said(engine)).text == "well"
    assert first.asked == 1


def test_an_engine_that_fails_after_it_spoke_is_not_stood_in_for() -> None:
    second = FakeEngine([Reply.of("well")])
    engine = routed(Failing(EngineError("broke"), after=2), second)
    with pytest.raises(EngineUnavailableError) as raised:
        asyncio.run(said(engine))
    assert raised.value.retryable
    assert not second.requests


def test_what_no_engine_of_the_kind_can_do_is_refused_at_once() -> None:
    second = FakeEngine([Reply.of("well")])
    with pytest.raises(UnsupportedError):
        asyncio.run(said(routed(Failing(UnsupportedError("no such choice")), second)))
    assert not second.requests


def test_an_engine_that_failed_rests_and_is_asked_last_meanwhile() -> None:
    now = [0.0]
    ill = Failing(EngineUnavailableError("gone"))
    engine = RoutedEngine(
        "m",
        [Replica("ill", ill, Health(lambda: now[0])), Replica("well", FakeEngine([Reply.of("a")] * 3))],
    )
    asyncio.run(said(engine))
    asyncio.run(said(engine))
    assert ill.asked == 1
    now[0] = 1.0
    asyncio.run(said(engine))
    assert ill.asked == 2


def test_an_engine_rests_longer_after_each_failure_and_not_without_end() -> None:
    now = [0.0]
    health = Health(lambda: now[0])
    rests: list[float] = []
    for _ in range(12):
        health.failed(EngineUnavailableError("gone"))
        rests.append(health.rests_until - now[0])
        now[0] = health.rests_until
    assert rests[:3] == [1.0, 2.0, 4.0]
    assert max(rests) == 60.0
    health.answered()
    assert health.is_well


def test_answers_that_fall_together_are_one_failure() -> None:
    now = [0.0]
    health = Health(lambda: now[0])
    for _ in range(5):
        health.failed(EngineUnavailableError("gone"))
    assert (health.failures, health.rests_until) == (1, 1.0)


def test_where_all_rest_all_are_tried_all_the_same() -> None:
    engine = routed(Failing(EngineUnavailableError("a")), Failing(EngineUnavailableError("b")))
    for _ in range(2):
        with pytest.raises(EngineUnavailableError):
            asyncio.run(said(engine))


def test_balanced_engines_take_turns_by_what_is_under_way() -> None:
    async def scenario() -> tuple[int, int]:
        left, right = FakeEngine([Reply.of("a b")] * 4), FakeEngine([Reply.of("a b")] * 4)
        engine = routed(left, right, balanced=True)
        streams = [engine.stream(ASKED) for _ in range(4)]
        for stream in streams:
            await anext(stream)
        for stream in streams:
            await stream.aclose()
        return len(left.requests), len(right.requests)

    assert asyncio.run(scenario()) == (2, 2)


def test_a_model_is_found_by_name_and_a_single_one_by_any() -> None:
    one = routed(FakeEngine([]))
    assert Router({"m": one}, accepts_any_name=True).engine("gpt-4o") is one
    assert Router({"m": one}).engine(None) is one
    with pytest.raises(NotFoundError) as raised:
        Router({"m": one}).engine("other")
    assert raised.value.hint == "There are: m."
