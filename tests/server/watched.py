"""A gateway whose log is collected, and engines that wait or fail, for tests of operation."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from ferrule.core.event import Event, Finish, FinishReason, TextDelta, Usage
from ferrule.core.request import ToolCallRequest
from ferrule.engines.engine import Engine, Traits
from ferrule.server.config.config import Config
from ferrule.server.observability.logs import Log
from ferrule.sources.source import Source
from server.client import Client, gateway_of

CHAT = "/v1/chat/completions"
MESSAGES = "/v1/messages"
BODIES: dict[str, dict[str, Any]] = {
    CHAT: {"messages": [{"role": "user", "content": "Hello."}]},
    MESSAGES: {"messages": [{"role": "user", "content": "Hello."}], "max_tokens": 50, "model": "m"},
}


class StepEngine(Engine):
    """Generates one word for each item in `steps`, and ends after `last` words."""

    def __init__(self, last: int = 1000) -> None:
        self.traits = Traits(name="stepping")
        self.steps = asyncio.Queue[None]()
        self.started = asyncio.Event()
        self.was_closed = False
        self._last = last

    async def stream_request(self, request: ToolCallRequest) -> AsyncGenerator[Event, None]:
        try:
            for _ in range(self._last):
                self.started.set()
                await self.steps.get()
                yield TextDelta("word ")
            yield Finish(FinishReason.STOP, Usage(3, self._last))
        finally:
            self.was_closed = True

    async def close(self) -> None:
        return


class RaisingEngine(Engine):
    """Generates `after` words, then raises an exception that no engine should raise."""

    def __init__(self, error: BaseException, after: int = 0) -> None:
        self.traits = Traits(name="stumbling")
        self._error = error
        self._after = after

    async def stream_request(self, request: ToolCallRequest) -> AsyncGenerator[Event, None]:
        local_secret = "sk-local-variable"
        for _ in range(self._after):
            yield TextDelta("said ")
        raise self._error if local_secret else RuntimeError

    async def close(self) -> None:
        return


@dataclass(slots=True)
class LogLines:
    """The lines that were logged."""

    texts: list[str] = field(default_factory=list[str])

    def with_event(self, event: str) -> list[dict[str, Any]]:
        return [line for line in map(json.loads, self.texts) if line["event"] == event]

    @property
    def text(self) -> str:
        return "".join(self.texts)


@asynccontextmanager
async def gateway_with_log(
    *engines: Engine, sources: Iterable[Source] = (), config: Config | None = None
) -> AsyncGenerator[tuple[Client, LogLines]]:
    async with gateway_of(*engines, sources=sources, config=config) as client:
        lines = LogLines()
        client.gateway.telemetry.log = Log(lines.texts.append)
        yield client, lines
