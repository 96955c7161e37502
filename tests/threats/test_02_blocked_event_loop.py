"""Row 2: nothing that a request asks for is worked on where everybody else waits."""

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
from threats.house import ANN, chat, house

TOOL = {"type": "function", "function": {"name": "t", "parameters": {"type": "object", "title": "held up"}}}


class Hold:
    """Work whose first time does not end before it is let go: nothing would come after it in the same thread."""

    def __init__(self, work: Callable[..., Any]) -> None:
        self.began, self._may_end = threading.Event(), threading.Event()
        self.times = 0
        self._work = work

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        self.times += 1
        self.began.set()
        assert self.times > 1 or self._may_end.wait(60)
        return self._work(*arguments, **named)

    def __get__(self, instance: Any, owner: Any) -> Any:
        """As a method."""
        return self if instance is None else partial(self, instance)

    def let_go(self) -> None:
        self._may_end.set()


WORK: dict[str, tuple[Any, str]] = {
    "counting what a long body holds": (admission, "check_json"),
    "reading a long body": (chat_api, "read_request"),
    "admission": (limits_request, "admitted_text"),
    "making a grammar": (constraint, "grammar_of"),
    "rendering": (ChatTemplate, "render"),
    "looking at a template": (prompt, "probe"),
}


@pytest.mark.parametrize("work", WORK)
def test_others_are_served_while_a_request_is_worked_on(work: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, name = WORK[work]
    hold = Hold(getattr(module, name))
    monkeypatch.setattr(module, name, hold)

    async def scenario() -> tuple[bool, int, int]:
        engine = TextEngine(FakeGenerator(["Hello.", "Hello."]), TextOptions(format="hermes"))
        async with house(engine=engine) as client:
            # A field that nobody reads, so that the body is long.
            hostile = asyncio.ensure_future(chat(client, ANN, tools=[TOOL], padding="x" * 100_000))
            async with asyncio.timeout(60):
                while not hold.began.is_set():
                    await asyncio.sleep(0.001)
                other = await client.get("/v1/models", bearer(ANN))
                was_waiting = not hostile.done()
                hold.let_go()
                return was_waiting, other.status, (await hostile).status

    assert asyncio.run(scenario()) == (True, 200, 200)


def test_a_grammar_is_made_once_for_all_who_wait_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    hold = Hold(constraint.grammar_of)
    monkeypatch.setattr(constraint, "grammar_of", hold)

    async def scenario() -> list[int]:
        engine = TextEngine(FakeGenerator(["Hello."] * 5), TextOptions(format="hermes"))
        async with house(engine=engine) as client, asyncio.timeout(60):
            asked = [asyncio.ensure_future(chat(client, ANN, tools=[TOOL])) for _ in range(5)]
            while not hold.began.is_set():
                await asyncio.sleep(0.001)
            # Who goes away takes nothing from the others.
            asked[0].cancel()
            await asyncio.gather(asked[0], return_exceptions=True)
            hold.let_go()
            return [(await one).status for one in asked[1:]]

    assert asyncio.run(scenario()) == [200] * 4
    assert hold.times == 1


@pytest.mark.parametrize(
    "name, value", [("chat_template_kwargs", {"tokenize": True}), ("tokenize", True), ("n", 10**6)]
)
def test_parameters_that_cost_work_in_other_engines_reach_nobody(name: str, value: Any) -> None:
    async def scenario() -> tuple[int, list[str]]:
        generator = FakeGenerator(["Hello."])
        async with house(engine=TextEngine(generator, TextOptions(format="hermes"))) as client:
            answer = await chat(client, ANN, **{name: value})
            return answer.status, [repr(one) for one in generator.asked]

    status, asked = asyncio.run(scenario())
    assert status == (400 if name == "n" else 200)
    assert "tokenize" not in "".join(asked)
