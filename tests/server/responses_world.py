"""Engines, tools and helpers for the tests of stored responses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ferrule.core.call import ToolCall
from ferrule.core.event import Event
from ferrule.core.message import Role
from ferrule.core.reply import Reply
from ferrule.core.request import ToolCallRequest
from ferrule.engines.engine import ALL_CHOICES, Engine, Traits
from ferrule.engines.fake import events_of
from ferrule.errors import EngineError, FerruleError
from ferrule.run.executor import ToolSettings
from ferrule.schema.tool_decorator import tool
from ferrule.server.config.config import Config, EngineConfig
from ferrule.sources.functions import Functions
from server.client import Client, ClientResponse

PATH = "/v1/responses"
ENDS = ("response.completed", "response.incomplete", "response.failed")


def config(ledger: str = "", lease: float = 10.0, *, confirms: bool = True, **more: Any) -> Config:
    settings = ToolSettings(tools_require_confirmation_for_side_effects=confirms)
    return Config(
        engines=(EngineConfig(name="e0", use="e0"),), ledger=ledger, lease_seconds=lease, tools=settings, **more
    )


class SteppingEngine(Engine):
    """Calls a tool in each round, numbering the steps, and then answers. It counts results since the user's message."""

    traits = Traits(name="stepping", honours=ALL_CHOICES)

    def __init__(self, steps: Sequence[str] = ("look", "pay", "pay"), pause: float = 0.0) -> None:
        self.steps = steps
        self.pause = pause
        self.requests: list[ToolCallRequest] = []

    async def stream_request(self, request: ToolCallRequest) -> AsyncGenerator[Event, None]:
        self.requests.append(request)
        result_count = 0
        for message in reversed(request.messages):
            if message.role is Role.USER:
                break
            result_count += len(message.results)
        reply = Reply.of("All done.")
        if result_count < len(self.steps):
            reply = Reply.of(
                f"Step {result_count}. ", ToolCall.of(self.steps[result_count], {"step": result_count}, id="same")
            )
        for event in events_of(reply):
            await asyncio.sleep(self.pause)
            yield event

    async def close(self) -> None:
        return


class FailingEngine(Engine):
    """Writes a text, if there is one, and fails."""

    traits = Traits(name="failing", honours=ALL_CHOICES)

    def __init__(self, text: str = "", error: FerruleError | None = None) -> None:
        self._text = text
        self._error = error or EngineError("it broke")

    async def stream_request(self, request: ToolCallRequest) -> AsyncGenerator[Event, None]:
        for event in list(events_of(Reply.of(self._text)))[:-1] if self._text else []:
            yield event
        raise self._error

    async def close(self) -> None:
        return


class EndlessEngine(Engine):
    """Writes until it is stopped."""

    traits = Traits(name="endless", honours=ALL_CHOICES)

    def __init__(self) -> None:
        self.is_stopped = asyncio.Event()
        self.has_begun = asyncio.Event()

    async def stream_request(self, request: ToolCallRequest) -> AsyncGenerator[Event, None]:
        word = next(iter(events_of(Reply.of("word "))))
        try:
            while True:
                yield word
                self.has_begun.set()
                await asyncio.sleep(0.005)
        finally:
            self.is_stopped.set()

    async def close(self) -> None:
        return


@dataclass(slots=True)
class ToolLog:
    """Records the calls of its tools."""

    calls: list[str] = field(default_factory=list[str])

    def source(self) -> Functions:
        @tool
        async def look(step: int) -> str:
            """Look at something."""
            self.calls.append(f"look {step}")
            return f"seen {step}"

        @tool(side_effects=True)
        async def pay(step: int) -> str:
            """Pay something."""
            self.calls.append(f"pay {step}")
            return f"paid {step}"

        return Functions([look, pay], id="till")


def kinds(response: ClientResponse) -> list[str]:
    return [event["type"] for event in response.events()]


def items(response: Any, kind: str) -> list[Any]:
    return [item for item in response["output"] if item["type"] == kind]


def text_of(response: Any) -> str:
    return "".join(part["text"] for item in items(response, "message") for part in item["content"])


def check_stream(events: Sequence[Any]) -> None:
    """Numbered without a gap, every item added and done once, and the last response holds them all in order."""
    assert [event["sequence_number"] for event in events] == [*range(len(events))]
    added = [event["item"]["id"] for event in events if event["type"] == "response.output_item.added"]
    done = [event["item"]["id"] for event in events if event["type"] == "response.output_item.done"]
    assert len(set(added)) == len(added)
    assert sorted(added) == sorted(done)
    assert events[-1]["type"] in ENDS
    assert [item["id"] for item in events[-1]["response"]["output"]] == added


async def wait_for_end(client: Client, id: str, headers: dict[str, str] | None = None) -> Any:
    """Return the response once it has ended."""
    while True:
        body = (await client.get(f"{PATH}/{id}", headers)).json()
        if body["status"] not in ("queued", "in_progress"):
            return body
        await asyncio.sleep(0.01)


async def follow(client: Client, id: str, after: int = -1) -> list[Any]:
    return (await client.get(f"{PATH}/{id}?stream=true&starting_after={after}")).events()
