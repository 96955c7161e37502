"""An engine whose words are the time at which it wrote them, for measuring how long a word is on its way.

`python -m lab.clock_engine COMMAND ...` is `ferrule COMMAND ...` with this engine: `--engine clock:MILLISECONDS`.
"""

import asyncio
import sys
import time
from collections.abc import AsyncGenerator
from typing import Final

from ferrule.cli.main import main
from ferrule.core.event import Event, Finish, FinishReason, TextDelta
from ferrule.core.request import ToolCallRequest
from ferrule.engines.engine import ALL_CHOICES, Engine, Traits
from ferrule.engines.registry import ENGINES, _EngineEntry  # pyright: ignore[reportPrivateUsage]

DEFAULT_WORDS: Final = 200


class ClockEngine(Engine):
    """Writes a word every few milliseconds, as many as the request has `max_tokens`."""

    traits = Traits(name="clock", honours=ALL_CHOICES)

    def __init__(self, milliseconds: str) -> None:
        self._pause = float(milliseconds) / 1000

    async def stream_request(self, request: ToolCallRequest) -> AsyncGenerator[Event, None]:
        for _ in range(request.max_tokens or DEFAULT_WORDS):
            await asyncio.sleep(self._pause)
            yield TextDelta(f"{time.monotonic_ns()} ")
        yield Finish(FinishReason.STOP)

    async def close(self) -> None:
        return


if __name__ == "__main__":
    ENGINES["clock"] = _EngineEntry(factory=ClockEngine, argument="TEXT")
    sys.exit(main(sys.argv[1:]))
