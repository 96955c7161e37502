"""An engine that writes when it is let, and knows how it was left."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence

from ferrule.core.event import Event, Finish, FinishReason, TextDelta, Usage
from ferrule.core.request import ToolCallRequest
from ferrule.engines.engine import ALL_CHOICES, Engine, Traits


class Paced(Engine):
    """Writes each of `words`; after `holds_after` of them it waits for `go`."""

    traits = Traits(name="paced", honours=ALL_CHOICES)

    def __init__(self, words: Sequence[str], *, holds_after: int | None = None) -> None:
        self.go = asyncio.Event()
        self.written = 0
        self.is_closed = False
        self._words = words
        self._holds_after = holds_after

    async def stream_request(self, request: ToolCallRequest) -> AsyncGenerator[Event, None]:
        try:
            for word in self._words:
                if self.written == self._holds_after:
                    await self.go.wait()
                self.written += 1
                yield TextDelta(word)
                await asyncio.sleep(0)
            yield Finish(FinishReason.STOP, Usage(3, len(self._words)))
        finally:
            self.is_closed = True

    async def close(self) -> None:
        return
