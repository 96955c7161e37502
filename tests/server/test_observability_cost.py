"""The cost of telemetry per event, counted in function calls: it is paid for every token."""

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
from ferrule.server.answer.plan import ToolOwner, Turn
from ferrule.server.answer.stream import AnswerStream
from server.client import gateway_of

OURS = ("observability", "process")


class FluentEngine(Engine):
    def __init__(self, events: int) -> None:
        self.traits = Traits(name="fluent")
        self._events = events

    async def stream_request(self, request: ToolCallRequest) -> AsyncGenerator[Event, None]:
        for _ in range(self._events):
            yield TextDelta("word ")
        yield Finish(FinishReason.STOP)

    async def close(self) -> None:
        return


def calls(events: int) -> Counter[str]:
    """Count the calls of telemetry functions during an answer of `events` events."""
    counts: Counter[str] = Counter()

    def profile(frame: FrameType, kind: str, argument: Any) -> None:
        module = str(frame.f_globals.get("__name__", ""))
        ours = module.removeprefix("ferrule.server.").startswith(OURS) and module.startswith("ferrule.server.")
        if kind == "call" and ours:
            counts[frame.f_code.co_qualname] += 1
        elif kind == "c_call" and ours:
            counts[f"{frame.f_code.co_qualname} -> {argument.__name__}"] += 1

    async def scenario() -> None:
        async with gateway_of(FluentEngine(events)) as client:
            request = ToolCallRequest(messages=(ChatMessage.user("Hello."),))
            turn = Turn(request=request, principal=Principal(), tool_owner=ToolOwner.NOBODY)
            sys.setprofile(profile)
            try:
                async for _ in AnswerStream(client.gateway, turn):
                    pass
            finally:
                sys.setprofile(None)

    asyncio.run(scenario())
    return counts


def test_telemetry_costs_two_calls_per_event() -> None:
    few, many = calls(100), calls(1100)
    grown = {name: (many[name] - few[name]) / 1000 for name in many if many[name] != few[name]}
    assert grown.pop("AnswerRecord.record_event") == 1
    assert grown.pop("AnswerRecord.check_cancelled") == 1
    # One lookup each: in the table of handlers, and of the current task.
    assert sum(grown.values()) <= 2, grown


def test_the_cost_per_answer_does_not_depend_on_its_length() -> None:
    few, many = calls(100), calls(1100)
    assert few["Telemetry.end_answer"] == many["Telemetry.end_answer"] == 1
    assert few["Counts.add"] == many["Counts.add"]
