"""Load any server with OpenAI's chat API: sequential requests, concurrent requests, and streams held open."""

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
class LoadRequest:
    """A request: to which URL, for how many events, with a tool or without, streamed or not."""

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
    """A load client. `headers` are sent with every request."""

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

    async def once(self, request: LoadRequest) -> tuple[float, int]:
        """Send one request; return the seconds until the whole answer arrived, and its number of events."""
        assert self._session is not None
        started = time.perf_counter()
        async with self._session.post(f"{request.url}/chat/completions", json=request.body) as answer:
            if answer.status != 200:
                raise RuntimeError(f"{request.url} answered {answer.status}: {(await answer.text())[:300]}")
            events = 0
            async for piece in answer.content.iter_any():
                events += piece.count(b"data: ")
        return time.perf_counter() - started, events

    async def many(self, request: LoadRequest, count: int, concurrency: int) -> tuple[float, list[float]]:
        """Send `count` requests, `concurrency` at a time; return the seconds of all and of each."""
        pending = iter(range(count))
        each: list[float] = []

        async def work() -> None:
            for _ in pending:
                seconds, _ = await self.once(request)
                each.append(seconds)

        started = time.perf_counter()
        await asyncio.gather(*(work() for _ in range(concurrency)))
        return time.perf_counter() - started, each

    async def hold_streams(
        self, request: LoadRequest, streams: int, per_second: float, sample: Callable[[], None]
    ) -> tuple[int, int, list[float]]:
        """Hold this many streams open at once; return events received, streams that failed, and seconds of each."""
        events = failed = 0
        seconds: list[float] = []

        async def one(at: int) -> None:
            nonlocal events, failed
            await asyncio.sleep(at / per_second)
            try:
                duration, count = await self.once(request)
            except (aiohttp.ClientError, RuntimeError, TimeoutError, OSError):
                failed += 1
                return
            seconds.append(duration)
            events += count

        async def sample_every_second() -> None:
            while True:
                sample()
                await asyncio.sleep(1)

        sampler = asyncio.ensure_future(sample_every_second())
        await asyncio.gather(*(one(at) for at in range(streams)))
        sampler.cancel()
        return events, failed, seconds


def p50(values: Sequence[float]) -> float:
    return statistics.median(values)


def p99(values: Sequence[float]) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * 0.99))]
