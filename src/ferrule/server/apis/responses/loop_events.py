"""Speech: what a loop tells, as the events of a response. And what stands between a loop and its engine and clock."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import asdict, replace

from ferrule.core.event import Event
from ferrule.core.message import ChatMessage
from ferrule.core.request import ToolCallRequest
from ferrule.dialects.openai_responses.hosted_encoder import HostedEncoder
from ferrule.dialects.openai_responses.hosted_tools import HostedTool
from ferrule.dialects.openai_responses.open_item import Told
from ferrule.engines.engine import Engine, Traits
from ferrule.errors import EngineTimeoutError
from ferrule.run.events import (
    ConfirmationRequired,
    LoopEnded,
    LoopEvent,
    ToolFinished,
    ToolProgressed,
    ToolStarted,
)
from ferrule.run.machine import State
from ferrule.server.apis.responses.resume_record import Plan
from ferrule.server.config.config import Limits

_LISTS = "mcp_list_tools"


class Speech:
    """`hosted` are the tools that the gateway runs, as the encoder knows them."""

    def __init__(self, encoder: HostedEncoder, plan: Plan, hosted: Mapping[str, HostedTool]) -> None:
        self.encoder = encoder
        output = encoder.response["output"]
        told = {item.get("approval_request_id") for item in output}
        self._leave = {call: approval for call, approval in plan.leave.items() if approval not in told}
        listed = {item["server_label"] for item in output if item["type"] == _LISTS}
        self._lists = {
            label: [tool for tool in hosted.values() if tool.label == label]
            for label in plan.lists
            if label not in listed
        }
        self.asked: dict[str, str] = {}
        """The approvals that calls of this answer wait for."""

    @property
    def has_said_something(self) -> bool:
        return any(item["type"] != _LISTS for item in self.encoder.response["output"])

    def begun(self) -> Told:
        """What is told before the model says anything."""
        told = self.encoder.begin()
        for label, tools in self._lists.items():
            told += self.encoder.listed(label, tools)
        self._lists = {}
        return told

    def heard(self, event: LoopEvent) -> Told:
        match event:
            case ToolStarted(call):
                return self.encoder.started(call, self._leave.pop(call.id, ""))
            case ToolProgressed(call_id, progress):
                return self.encoder.progressed(call_id, asdict(progress))
            case ToolFinished(result):
                return self.encoder.finished(result)
            case ConfirmationRequired(call, approval):
                self.asked[call.id] = approval
                return self.encoder.asked(call, approval)
            case LoopEnded(state):
                return self.encoder.finish(waits=state is State.WAITING)
            case _:
                return self.encoder.feed(event)


class Instructed(Engine):
    """An engine that is told something first, whatever the conversation: instructions are of one answer only."""

    def __init__(self, engine: Engine, instructions: str) -> None:
        self._engine = engine
        self._first = ChatMessage.system(instructions)

    @property
    def traits(self) -> Traits:  # pyright: ignore[reportIncompatibleVariableOverride]  # of the engine itself
        return self._engine.traits

    async def stream(self, request: ToolCallRequest) -> AsyncGenerator[Event, None]:
        asked = replace(request, messages=(self._first, *request.messages))
        async with aclosing(self._engine.stream(asked)) as events:
            async for event in events:
                yield event

    async def close(self) -> None:
        """Whoever made the engine closes it."""


async def in_time(events: AsyncGenerator[LoopEvent], limits: Limits) -> AsyncGenerator[LoopEvent]:
    """The same under the deadlines of an answer. The next is asked for only when the last was dealt with."""
    until = time.monotonic() + limits.total_seconds
    patience = limits.first_seconds
    async with aclosing(events):
        while True:
            clock = asyncio.timeout(max(0.0, min(patience, until - time.monotonic())))
            try:
                async with clock:
                    event = await anext(events, None)
            except TimeoutError as late:
                if not clock.expired():
                    raise
                raise EngineTimeoutError(
                    "the answer took too long", hint="Ask for less, or raise the limits."
                ) from late
            if event is None:
                return
            patience = limits.between_seconds
            yield event
