"""What watching costs for each event, counted in calls: a gateway lives by what it does per token."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import AsyncGenerator
from types import FrameType
from typing import Any

from ferrule.core.context import Principal
from ferrule.core.event import Event, Finish, FinishReason, TextDelta
from ferrule.core.message import ChatMessage
from ferrule.core.request import ToolCallRequest
from ferrule.engines.engine import Engine, Traits
from ferrule.server.answer.turn import ToolOwner, Turn
from server.client import gateway_of

OURS = ("observability", "process")


class Fluent(Engine):
    def __init__(self, events: int) -> None:
        self.traits = Traits(name="fluent")
        self._events = events

    async def stream(self, request: ToolCallRequest) -> AsyncGenerator[Event, None]:
        for _ in range(self._events):
            yield TextDelta("word ")
        yield Finish(FinishReason.STOP)

    async def close(self) -> None:
        return


def calls(events: int) -> Counter[str]:
    """How often each function of the watching was entered, and what it called, over an answer of so many events."""
    counted: Counter[str] = Counter()

    def profile(frame: FrameType, kind: str, argument: Any) -> None:
        module = str(frame.f_globals.get("__name__", ""))
        ours = module.removeprefix("ferrule.server.").startswith(OURS) and module.startswith("ferrule.server.")
        if kind == "call" and ours:
            counted[frame.f_code.co_qualname] += 1
        elif kind == "c_call" and ours:
            counted[f"{frame.f_code.co_qualname} -> {argument.__name__}"] += 1

    async def scenario() -> None:
        async with gateway_of(Fluent(events)) as client:
            request = ToolCallRequest(messages=(ChatMessage.user("Hello."),))
            turn = Turn(request=request, principal=Principal(), tool_owner=ToolOwner.NOBODY)
            sys.setprofile(profile)
            try:
                async for _ in client.gateway.answer(turn):
                    pass
            finally:
                sys.setprofile(None)

    asyncio.run(scenario())
    return counted


def test_an_event_costs_two_calls_and_what_is_not_a_token_nothing_more() -> None:
    few, many = calls(100), calls(1100)
    grown = {name: (many[name] - few[name]) / 1000 for name in many if many[name] != few[name]}
    assert grown.pop("Noted.note") == 1
    assert grown.pop("Noted.wait") == 1
    # Each of them looks once: into the table of events, and for the task that waits.
    assert sum(grown.values()) <= 2, grown


def test_an_answer_costs_the_same_however_long_it_is() -> None:
    few, many = calls(100), calls(1100)
    assert few["Watch.answered"] == many["Watch.answered"] == 1
    assert few["Counts.add"] == many["Counts.add"]
