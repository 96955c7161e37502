"""Load on anything that speaks OpenAI's chat API: requests one by one, many at once, and streams held open."""

import asyncio
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import aiohttp

_TOOL = {
    "type": "function",
    "function": {
        "name": "take_note",
        "parameters": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    },
}


@dataclass(frozen=True, slots=True)
class Asking:
    """What is asked: of which address, how many events, with a tool or without, streamed or not."""

    url: str
    events: int = 8
    has_tool: bool = False
    is_streamed: bool = True

    @property
    def body(self) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": "m",
            "messages": [{"role": "user", "content": "Take a note about Paris, with take_note where there is one."}],
            "max_tokens": self.events,
        }
        if self.is_streamed:
            body["stream"] = True
        return {**body, "tools": [_TOOL]} if self.has_tool else body


@dataclass(slots=True)
class Load:
    """A client. `headers` go with every request."""

    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    _session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> "Load":
        connector = aiohttp.TCPConnector(limit=0)
        timeout = aiohttp.ClientTimeout(total=600)
        self._session = aiohttp.ClientSession(connector=connector, headers=self.headers, timeout=timeout)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

    async def once(self, asking: Asking) -> tuple[float, int]:
        """Seconds until the whole answer was there, and how many events it had."""
        assert self._session is not None
        started = time.perf_counter()
        async with self._session.post(f"{asking.url}/chat/completions", json=asking.body) as answer:
            if answer.status != 200:
                raise RuntimeError(f"{asking.url} answered {answer.status}: {(await answer.text())[:300]}")
            events = 0
            async for piece in answer.content.iter_any():
                events += piece.count(b"data: ")
        return time.perf_counter() - started, events

    async def many(self, asking: Asking, count: int, width: int) -> tuple[float, list[float]]:
        """So many requests, so many at once: the seconds of all and of each."""
        waiting = iter(range(count))
        each: list[float] = []

        async def work() -> None:
            for _ in waiting:
                seconds, _ = await self.once(asking)
                each.append(seconds)

        started = time.perf_counter()
        await asyncio.gather(*(work() for _ in range(width)))
        return time.perf_counter() - started, each

    async def held(
        self, asking: Asking, streams: int, per_second: float, look: Callable[[], None]
    ) -> tuple[int, int, list[float]]:
        """So many streams open at once. Events received, streams that failed, and how long each took."""
        events = failed = 0
        seconds: list[float] = []

        async def one(at: int) -> None:
            nonlocal events, failed
            await asyncio.sleep(at / per_second)
            try:
                took, heard = await self.once(asking)
            except (aiohttp.ClientError, RuntimeError, TimeoutError, OSError):
                failed += 1
                return
            seconds.append(took)
            events += heard

        async def looks() -> None:
            while True:
                look()
                await asyncio.sleep(1)

        looking = asyncio.ensure_future(looks())
        await asyncio.gather(*(one(at) for at in range(streams)))
        looking.cancel()
        return events, failed, seconds


def p50(values: Sequence[float]) -> float:
    return statistics.median(values)


def p99(values: Sequence[float]) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * 0.99))]
