"""How a gateway stops: nothing new, what is under way ends, and the rest is cut off in its own shape."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from ferrule.core.call import ToolCall
from ferrule.core.reply import Reply
from ferrule.errors import DrainingError
from ferrule.schema.tool_decorator import tool
from ferrule.server.process.drain import Drain
from ferrule.sources.functions import Functions
from server.client import Answered, Client, speaking
from server.keys import bearer, key, keyed
from server.watched import BODIES, CHAT, MESSAGES, Lines, Stepping, watched_gateway

KINDS = {CHAT: "server_error", MESSAGES: "error"}


def stopped(
    path: str, scenario: Callable[[Client, Stepping], Coroutine[Any, Any, float]], *, stream: bool = True
) -> tuple[Answered, int, Lines, Stepping]:
    """One answer under way; what the scenario does with it before the drain, and how long that is given; what comes."""

    async def run() -> tuple[Answered, int, Lines, Stepping]:
        engine = Stepping(last=3)
        async with watched_gateway(engine) as (client, lines):
            asking = asyncio.ensure_future(client.post(path, {**BODIES[path], "stream": stream}))
            await engine.began.wait()
            seconds = await scenario(client, engine)
            drain = client.gateway.watch.drain
            drain.begin()
            cut = await drain.ended(seconds)
            assert not drain.under_way
            return await asking, cut, lines, engine

    return asyncio.run(run())


@pytest.mark.parametrize("path", [CHAT, MESSAGES])
def test_what_is_under_way_ends_as_if_nothing_were(path: str) -> None:
    async def goes_on(client: Client, engine: Stepping) -> float:
        for _ in range(3):
            engine.leave.put_nowait(None)
        return 30.0

    answer, cut, _, _ = stopped(path, goes_on)
    assert (answer.status, cut) == (200, 0)
    assert answer.body.count(b"word ") == 3
    assert b"error" not in answer.body


@pytest.mark.parametrize("path", [CHAT, MESSAGES])
def test_a_stream_that_takes_too_long_ends_with_a_retryable_error_in_its_clients_shape(path: str) -> None:
    async def stands_still(client: Client, engine: Stepping) -> float:
        engine.leave.put_nowait(None)
        while not client.gateway.watch.counted().sums["ferrule_events"].get(("e0",)):
            await asyncio.sleep(0)
        return 0.0

    answer, cut, lines, engine = stopped(path, stands_still)
    assert answer.status == 200
    assert cut == 2
    assert answer.body.count(b"word ") == 1
    told = answer.events()[-1]
    assert told["error"]["code" if path == CHAT else "type"] == ("draining" if path == CHAT else "overloaded_error")
    assert engine.was_closed
    assert lines.named("request")[0]["outcome"] == "draining"


@pytest.mark.parametrize("path", [CHAT, MESSAGES])
@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_that_has_not_begun_is_refused_with_a_status(path: str, stream: bool) -> None:
    async def is_silent(client: Client, engine: Stepping) -> float:
        return 0.0

    answer, cut, _, engine = stopped(path, is_silent, stream=stream)
    assert (answer.status, cut) == (503, 2)
    assert answer.headers["retry-after"] == "1"
    assert answer.headers["x-should-retry"] == "true"
    assert answer.headers["connection"] == "close"
    assert "error" in answer.json()
    assert engine.was_closed


@pytest.mark.parametrize("path", [CHAT, MESSAGES])
def test_nobody_new_comes_in_while_it_drains(path: str) -> None:
    async def scenario() -> Answered:
        async with watched_gateway(speaking("Hello.")) as (client, _):
            client.gateway.watch.drain.begin()
            return await client.post(path, BODIES[path])

    answer = asyncio.run(scenario())
    assert answer.status == 503
    assert (answer.headers["connection"], answer.headers["retry-after"]) == ("close", "1")


def test_whoever_runs_it_can_still_look() -> None:
    async def scenario() -> list[int]:
        config = keyed(key("root", admin=True))
        async with watched_gateway(speaking(), config=config) as (client, _):
            client.gateway.watch.drain.begin()
            answers = [await client.get(path, bearer("root")) for path in ("/healthz", "/metrics", "/v1/models")]
            return [answer.status for answer in answers]

    assert asyncio.run(scenario()) == [200, 200, 503]


def test_a_tool_that_runs_too_long_is_stopped_and_its_conversation_is_given_back() -> None:
    began = asyncio.Event()

    @tool
    async def sleeps(city: str) -> str:
        """Takes for ever."""
        began.set()
        await asyncio.sleep(3600)
        return city

    async def scenario() -> tuple[Answered, float, float]:
        reply = Reply.of("I look. ", ToolCall.of("sleeps", {"city": "Paris"}, id="call_1"))
        async with watched_gateway(speaking(reply), sources=[Functions([sleeps])]) as (client, _):
            asking = asyncio.ensure_future(client.post(CHAT, {**BODIES[CHAT], "stream": True}))
            await began.wait()
            (noted,) = client.gateway.watch.answers
            held = await client.gateway.ledger.load(noted.conversation)
            client.gateway.watch.drain.begin()
            await client.gateway.watch.drain.ended(0.0)
            left = await client.gateway.ledger.load(noted.conversation)
            assert held is not None
            assert left is not None
            return await asking, held.lease_until, left.lease_until

    answer, held, left = asyncio.run(scenario())
    assert answer.events()[-1]["error"]["code"] == "draining"
    assert left < held


def test_a_request_without_an_answer_is_cut_off_too(monkeypatch: pytest.MonkeyPatch) -> None:
    began = asyncio.Event()

    async def takes_for_ever(*_: object) -> int:
        began.set()
        await asyncio.sleep(3600)
        return 1

    async def scenario() -> Answered:
        async with watched_gateway(speaking()) as (client, _):
            monkeypatch.setattr(type(client.gateway), "count_tokens", takes_for_ever)
            asking = asyncio.ensure_future(client.post(f"{MESSAGES}/count_tokens", BODIES[MESSAGES]))
            await began.wait()
            client.gateway.watch.drain.begin()
            assert await client.gateway.watch.drain.ended(0.0) == 1
            return await asking

    answer = asyncio.run(scenario())
    assert (answer.status, json.loads(answer.body)["type"]) == (503, "error")


class Idle:
    """A connection on which nothing is asked."""

    can_wait = True

    def __init__(self, drain: Drain) -> None:
        self._drain = drain

    def cut(self) -> None:
        self._drain.under_way.discard(self)


def test_a_quiet_connection_is_not_waited_for() -> None:
    async def scenario() -> int:
        drain = Drain()
        drain.under_way.add(Idle(drain))
        return await drain.ended(3600.0)

    assert asyncio.run(scenario()) == 0


def test_a_second_word_ends_the_waiting() -> None:
    class Stubborn(Idle):
        can_wait = False

    async def scenario() -> int:
        drain = Drain()
        drain.under_way.add(Stubborn(drain))
        asyncio.get_running_loop().call_later(0.01, drain.hurry)
        return await drain.ended(3600.0)

    assert asyncio.run(scenario()) == 1


def test_the_error_says_that_asking_again_helps_elsewhere() -> None:
    assert (DrainingError.status, DrainingError.retryable, DrainingError.ends_connection) == (503, True, True)
