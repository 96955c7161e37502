"""Row 2: no work that a request causes blocks the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from ferrule.engines.fake import FakeGenerator
from ferrule.engines.text import constraint, prompt
from ferrule.engines.text.engine import TextEngine, TextOptions
from ferrule.server.apis import chat as chat_api
from ferrule.server.auth import admission
from ferrule.server.auth import request_limits as limits_request
from ferrule.wire.template.chat_template import ChatTemplate
from server.keys import bearer
from threats.gateway_fixture import ANN, chat, threat_gateway

TOOL = {"type": "function", "function": {"name": "t", "parameters": {"type": "object", "title": "blocking"}}}


class Hold:
    """Wraps a function whose first call blocks until it is released."""

    def __init__(self, work: Callable[..., Any]) -> None:
        self.started, self._may_end = threading.Event(), threading.Event()
        self.times = 0
        self._work = work

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        self.times += 1
        self.started.set()
        assert self.times > 1 or self._may_end.wait(60)
        return self._work(*arguments, **named)

    def __get__(self, instance: Any, owner: Any) -> Any:
        """Support wrapping a method."""
        return self if instance is None else partial(self, instance)

    def release(self) -> None:
        self._may_end.set()


WORK: dict[str, tuple[Any, str]] = {
    "counting the values of a long body": (admission, "check_json"),
    "reading a long body": (chat_api, "read_request"),
    "admission": (limits_request, "admit_text"),
    "building a grammar": (constraint, "grammar_of"),
    "rendering": (ChatTemplate, "render"),
    "probing a template": (prompt, "probe"),
}


@pytest.mark.parametrize("work", WORK)
def test_other_requests_are_served_while_one_is_processed(work: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, name = WORK[work]
    hold = Hold(getattr(module, name))
    monkeypatch.setattr(module, name, hold)

    async def scenario() -> tuple[bool, int, int]:
        engine = TextEngine(FakeGenerator(["Hello.", "Hello."]), TextOptions(format="hermes"))
        async with threat_gateway(engine=engine) as client:
            # An unused field that makes the body long.
            hostile = asyncio.ensure_future(chat(client, ANN, tools=[TOOL], padding="x" * 100_000))
            async with asyncio.timeout(60):
                while not hold.started.is_set():
                    await asyncio.sleep(0.001)
                other = await client.get("/v1/models", bearer(ANN))
                was_waiting = not hostile.done()
                hold.release()
                return was_waiting, other.status, (await hostile).status

    assert asyncio.run(scenario()) == (True, 200, 200)


def test_a_grammar_is_built_once_for_all_waiting_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    hold = Hold(constraint.grammar_of)
    monkeypatch.setattr(constraint, "grammar_of", hold)

    async def scenario() -> list[int]:
        engine = TextEngine(FakeGenerator(["Hello."] * 5), TextOptions(format="hermes"))
        async with threat_gateway(engine=engine) as client, asyncio.timeout(60):
            requests = [asyncio.ensure_future(chat(client, ANN, tools=[TOOL])) for _ in range(5)]
            while not hold.started.is_set():
                await asyncio.sleep(0.001)
            # A cancelled request does not affect the others.
            requests[0].cancel()
            await asyncio.gather(requests[0], return_exceptions=True)
            hold.release()
            return [(await one).status for one in requests[1:]]

    assert asyncio.run(scenario()) == [200] * 4
    assert hold.times == 1


@pytest.mark.parametrize(
    "name, value", [("chat_template_kwargs", {"tokenize": True}), ("tokenize", True), ("n", 10**6)]
)
def test_expensive_parameters_of_other_engines_are_ignored(name: str, value: Any) -> None:
    async def scenario() -> tuple[int, list[str]]:
        generator = FakeGenerator(["Hello."])
        async with threat_gateway(engine=TextEngine(generator, TextOptions(format="hermes"))) as client:
            answer = await chat(client, ANN, **{name: value})
            return answer.status, [repr(one) for one in generator.requests]

    status, requests = asyncio.run(scenario())
    assert status == (400 if name == "n" else 200)
    assert "tokenize" not in "".join(requests)
