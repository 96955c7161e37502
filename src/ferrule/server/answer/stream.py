"""Send an answer, whole or as a stream of events. Independent of any dialect: an `ApiEncoder` encodes the events.

Nothing is sent before the first event, so that an immediate failure gets an HTTP status and the API's error body.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Protocol

from ferrule.core.event import Event
from ferrule.core.reply import Reply, ReplyFold
from ferrule.engines.deadlines import DeadlineTimer
from ferrule.errors import EngineTimeoutError, FerruleError
from ferrule.run.events import LoopEvent
from ferrule.server.answer.flatten import ExtensionEvent, RoundFlattener
from ferrule.server.config.config import GatewayLimits
from ferrule.server.http import StreamingResponse

_FIRST_EVENT_SECONDS = 10.0
"""How long to wait for the first event. Then the answer starts anyway, and errors come inside the stream."""

AnswerEvent = Event | ExtensionEvent


class ApiEncoder(Protocol):
    """Encodes one answer in one API as bytes."""

    def feed(self, event: AnswerEvent, /) -> bytes: ...

    def fail(self, error: FerruleError, /) -> bytes:
        """End the answer with an error of the API."""
        ...

    def end(self) -> bytes:
        """Return what follows the last event."""
        ...

    @property
    def keep_alive(self) -> bytes: ...


async def flatten_with_deadlines(
    events: AsyncGenerator[LoopEvent], flattener: RoundFlattener, limits: GatewayLimits
) -> AsyncGenerator[AnswerEvent]:
    """Yield the flattened events of an answer. Raises `EngineTimeoutError` after a deadline."""
    deadline = time.monotonic() + limits.total_seconds
    timeout = limits.first_seconds
    waits = DeadlineTimer()
    async with aclosing(events):
        try:
            while True:
                waits.start(min(timeout, max(deadline - time.monotonic(), 0.0)))
                try:
                    event = await anext(events, None)
                except asyncio.CancelledError as cancelled:
                    waits.reraise_unless_expired(cancelled)
                    raise EngineTimeoutError(
                        "the answer took too long", hint="Request less, or raise the limits."
                    ) from cancelled
                waits.stop()
                if event is None:
                    return
                timeout = limits.between_seconds
                for answer_event in flattener.feed(event):
                    yield answer_event
        finally:
            waits.close()


async def collect_answer(events: AsyncGenerator[AnswerEvent]) -> tuple[Reply, list[ExtensionEvent]]:
    """Return the whole answer and its extension events."""
    folding = ReplyFold()
    extension_events: list[ExtensionEvent] = []
    async with aclosing(events):
        async for event in events:
            if isinstance(event, ExtensionEvent):
                extension_events.append(event)
            else:
                folding.add(event)
    return folding.reply(), extension_events


async def stream_answer(
    events: AsyncGenerator[AnswerEvent], encoder: ApiEncoder, limits: GatewayLimits
) -> StreamingResponse:
    """Return the answer as a stream. An error before the first event is raised here."""
    first = asyncio.ensure_future(anext(events, None))
    try:
        await asyncio.wait({first}, timeout=_FIRST_EVENT_SECONDS)
        if first.done():
            first.result()
    except (asyncio.CancelledError, FerruleError):
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        await events.aclose()
        raise
    return StreamingResponse(
        _encode_events(first, events, encoder),
        keep_alive=encoder.keep_alive,
        keep_alive_seconds=limits.keep_alive_seconds,
    )


async def _encode_events(
    first: asyncio.Future[AnswerEvent | None], events: AsyncGenerator[AnswerEvent], encoder: ApiEncoder
) -> AsyncGenerator[bytes, None]:
    try:
        async with aclosing(events):
            event = await first
            if event is not None:
                yield encoder.feed(event)
                async for event in events:
                    if data := encoder.feed(event):
                        yield data
        yield encoder.end()
    except FerruleError as error:
        yield encoder.fail(error)
    finally:
        first.cancel()
