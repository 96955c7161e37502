"""Several engines that serve one model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest

from ferrule.core.event import Diagnostic, Event, Finish, FinishReason, TextDelta
from ferrule.core.forward import ForwardApi, ForwardedPart, ForwardRequest
from ferrule.core.message import ChatMessage
from ferrule.core.reply import Reply
from ferrule.core.request import ToolCallRequest
from ferrule.dialects.openai_forward import read_completion, read_embeddings
from ferrule.engines.engine import Engine, Traits
from ferrule.engines.fake import FakeEngine
from ferrule.errors import (
    EngineError,
    EngineRateLimitError,
    EngineRequestError,
    EngineTimeoutError,
    EngineUnavailableError,
    NotFoundError,
    UnsupportedError,
)
from ferrule.server.router import Health, Replica, RoutedEngine, Router

REQUEST = ToolCallRequest(messages=(ChatMessage.user("hello"),))


class FailingEngine(Engine):
    """Generates `after` events, then fails."""

    def __init__(self, error: EngineError, after: int = 0) -> None:
        self.traits = Traits(name="failing")
        self.request_count = 0
        self._error = error
        self._after = after

    async def stream_request(self, request: ToolCallRequest) -> AsyncGenerator[Event, None]:
        self.request_count += 1
        for _ in range(self._after):
            yield TextDelta("said ")
        raise self._error

    async def close(self) -> None:
        return


def route_to(*engines: Engine, balanced: bool = False) -> RoutedEngine:
    return RoutedEngine("m", [Replica(f"e{at}", one) for at, one in enumerate(engines)], balanced=balanced)


async def reply_of(engine: Engine) -> Reply:
    return await engine.generate_with_tools(REQUEST)


@pytest.mark.parametrize(
    "error", [EngineUnavailableError("gone"), EngineTimeoutError("slow"), EngineError("broke", code="broken_off")]
)
def test_an_engine_that_fails_before_output_is_replaced_by_the_next(error: EngineError) -> None:
    first = FailingEngine(error)
    engine = route_to(first, FakeEngine([Reply.of("well")]))
    assert asyncio.run(reply_of(engine)).text == "well"
    assert first.request_count == 1


def test_an_engine_that_fails_after_output_is_not_replaced() -> None:
    second = FakeEngine([Reply.of("well")])
    engine = route_to(FailingEngine(EngineError("broke"), after=2), second)
    with pytest.raises(EngineUnavailableError) as raised:
        asyncio.run(reply_of(engine))
    assert raised.value.retryable
    assert not second.requests


def test_an_unsupported_request_is_refused_without_failover() -> None:
    second = FakeEngine([Reply.of("well")])
    with pytest.raises(UnsupportedError):
        asyncio.run(reply_of(route_to(FailingEngine(UnsupportedError("no such choice")), second)))
    assert not second.requests


def test_an_engine_that_failed_is_used_last_until_its_retry_time() -> None:
    now = [0.0]
    failing = FailingEngine(EngineUnavailableError("gone"))
    engine = RoutedEngine(
        "m",
        [Replica("ill", failing, Health(lambda: now[0])), Replica("well", FakeEngine([Reply.of("a")] * 3))],
    )
    asyncio.run(reply_of(engine))
    asyncio.run(reply_of(engine))
    assert failing.request_count == 1
    now[0] = 1.0
    asyncio.run(reply_of(engine))
    assert failing.request_count == 2


def test_the_retry_delay_grows_with_each_failure_up_to_a_maximum() -> None:
    now = [0.0]
    health = Health(lambda: now[0])
    delays: list[float] = []
    for _ in range(12):
        health.record_failure(EngineUnavailableError("gone"))
        delays.append(health.retry_at - now[0])
        now[0] = health.retry_at
    assert delays[:3] == [1.0, 2.0, 4.0]
    assert max(delays) == 60.0
    health.record_success()
    assert health.is_healthy


def test_simultaneous_failures_count_once() -> None:
    now = [0.0]
    health = Health(lambda: now[0])
    for _ in range(5):
        health.record_failure(EngineUnavailableError("gone"))
    assert (health.failures, health.retry_at) == (1, 1.0)


def test_if_all_engines_are_unhealthy_all_are_tried() -> None:
    engine = route_to(FailingEngine(EngineUnavailableError("a")), FailingEngine(EngineUnavailableError("b")))
    for _ in range(2):
        with pytest.raises(EngineUnavailableError):
            asyncio.run(reply_of(engine))


def test_balanced_engines_share_requests_in_progress() -> None:
    async def scenario() -> tuple[int, int]:
        first, second = FakeEngine([Reply.of("a b")] * 4), FakeEngine([Reply.of("a b")] * 4)
        engine = route_to(first, second, balanced=True)
        streams = [engine.stream(REQUEST) for _ in range(4)]
        for stream in streams:
            await anext(stream)
        for stream in streams:
            await stream.aclose()
        return len(first.requests), len(second.requests)

    assert asyncio.run(scenario()) == (2, 2)


def test_a_model_is_found_by_name_and_a_single_one_by_any() -> None:
    one = route_to(FakeEngine([]))
    assert Router({"m": one}, accepts_any_name=True).engine("gpt-4o") is one
    assert Router({"m": one}).engine(None) is one
    with pytest.raises(NotFoundError) as raised:
        Router({"m": one}).engine("other")
    assert raised.value.hint == "There are: m."


def ask(text: str) -> ToolCallRequest:
    return ToolCallRequest(messages=(ChatMessage.user(text),))


@pytest.mark.parametrize("error", [EngineError("500"), EngineTimeoutError("slow"), EngineError("x", code="broken_off")])
def test_one_request_that_fails_again_and_again_does_not_make_an_engine_sick(error: EngineError) -> None:
    health = Health()
    for _ in range(20):
        health.record_failure(error, REQUEST)
    assert health.is_healthy


def test_different_requests_that_fail_in_a_row_make_an_engine_sick() -> None:
    health = Health(lambda: 0.0)
    health.record_failure(EngineError("500"), ask("one"))
    health.record_failure(EngineError("500"), ask("two"))
    health.record_success()
    health.record_failure(EngineError("500"), ask("three"))
    health.record_failure(EngineError("500"), ask("four"))
    assert health.is_healthy
    health.record_failure(EngineError("500"), ask("five"))
    assert not health.is_healthy


@pytest.mark.parametrize("read, name", [(read_completion, "prompt"), (read_embeddings, "input")])
def test_different_forwarded_requests_that_fail_in_a_row_make_an_engine_sick(
    read: Callable[[dict[str, Any]], ForwardRequest], name: str
) -> None:
    class Broken:
        apis = frozenset(ForwardApi)

        async def forward(self, request: ForwardRequest, /) -> AsyncGenerator[ForwardedPart, None]:
            raise EngineError("500")
            yield

    engine = FakeEngine([])
    engine.forwarder = Broken()
    routed = route_to(engine)
    health = routed.replicas[0].health

    def fail(text: str) -> None:
        with pytest.raises(EngineError):
            asyncio.run(anext(routed.forward(read({name: text}))))

    for _ in range(20):
        fail("the same")
    assert health.is_healthy
    fail("another")
    fail("a third")
    assert not health.is_healthy


def test_a_rejected_request_says_nothing_about_the_engine() -> None:
    health = Health()
    for number in range(20):
        health.record_failure(EngineRequestError("too long"), ask(str(number)))
    assert health.is_healthy


def test_an_engine_that_limits_requests_rests_as_long_as_it_says() -> None:
    health = Health(lambda: 0.0)
    health.record_failure(EngineRateLimitError("slowly", retry_after=7.0))
    assert health.retry_at == 7.0


def test_a_rejection_outweighs_the_failure_of_the_next_engine() -> None:
    rejecting, gone = FailingEngine(EngineRequestError("too long")), FailingEngine(EngineUnavailableError("gone"))
    with pytest.raises(EngineRequestError):
        asyncio.run(reply_of(route_to(rejecting, gone)))
    assert gone.request_count == 1


def test_an_engine_that_breaks_off_its_answer_is_reported_and_its_words_are_not_passed_on() -> None:
    class BreakingEngine(FakeEngine):
        async def stream_request(self, request: ToolCallRequest) -> AsyncGenerator[Event, None]:
            yield TextDelta("It begins")
            yield Diagnostic("engine_error", "the address is 10.1.2.3")
            yield Finish(FinishReason.LENGTH)

    failures: list[str] = []

    def listen(model: str, engine: str, error: EngineError, *, is_failover: bool) -> None:
        failures.append(error.message)

    engine = route_to(BreakingEngine([]))
    engine.on_failure = listen
    reply = asyncio.run(reply_of(engine))
    assert failures == ["the address is 10.1.2.3"]
    assert "10.1.2.3" not in str(reply.diagnostics)
