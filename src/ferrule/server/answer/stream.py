"""How an answer leaves: whole, or as events while it forms. Knows no dialect; a `Spoken` is one.

The first event is waited for before anything is sent, so that what fails at once fails with a status and in the
client's own shape.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Protocol

from ferrule.core.event import Event
from ferrule.core.reply import Folding, Reply
from ferrule.engines.deadlines import Waits
from ferrule.errors import EngineTimeoutError, FerruleError
from ferrule.run.events import LoopEvent
from ferrule.server.answer.flatten import Aside, Rounds
from ferrule.server.config.config import Limits
from ferrule.server.http import Streamed

_PATIENCE = 10.0
"""How long a status is held back for the first event; after that the answer is begun, and errors come inside it."""

Said = Event | Aside


class Spoken(Protocol):
    """One answer in one API, as bytes."""

    def feed(self, said: Said, /) -> bytes: ...

    def fail(self, error: FerruleError, /) -> bytes:
        """Ends the answer because of an error, in the client's own shape."""
        ...

    def end(self) -> bytes:
        """What is said after the last event."""
        ...

    @property
    def keep_alive(self) -> bytes: ...


async def said_in(events: AsyncGenerator[LoopEvent], rounds: Rounds, limits: Limits) -> AsyncGenerator[Said]:
    """What an answer says, under its deadlines."""
    until = time.monotonic() + limits.total_seconds
    patience = limits.first_seconds
    waits = Waits()
    async with aclosing(events):
        try:
            while True:
                waits.begin(min(patience, max(until - time.monotonic(), 0.0)))
                try:
                    event = await anext(events, None)
                except asyncio.CancelledError as cancelled:
                    waits.ended(cancelled)
                    raise EngineTimeoutError(
                        "the answer took too long", hint="Ask for less, or raise the limits."
                    ) from cancelled
                waits.end()
                if event is None:
                    return
                patience = limits.between_seconds
                for said in rounds.feed(event):
                    yield said
        finally:
            waits.close()


async def whole(said: AsyncGenerator[Said]) -> tuple[Reply, list[Aside]]:
    """The whole answer, and what was told beside it."""
    folding = Folding()
    asides: list[Aside] = []
    async with aclosing(said):
        async for one in said:
            if isinstance(one, Aside):
                asides.append(one)
            else:
                folding.add(one)
    return folding.reply(), asides


async def streamed(said: AsyncGenerator[Said], spoken: Spoken, limits: Limits) -> Streamed:
    """The answer as it forms. What fails before anything was said is raised here."""
    first = asyncio.ensure_future(anext(said, None))
    try:
        await asyncio.wait({first}, timeout=_PATIENCE)
        if first.done():
            first.result()
    except (asyncio.CancelledError, FerruleError):
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        await said.aclose()
        raise
    return Streamed(
        _pieces(first, said, spoken), keep_alive=spoken.keep_alive, keep_alive_seconds=limits.keep_alive_seconds
    )


async def _pieces(
    first: asyncio.Future[Said | None], said: AsyncGenerator[Said], spoken: Spoken
) -> AsyncGenerator[bytes, None]:
    try:
        async with aclosing(said):
            one = await first
            if one is not None:
                yield spoken.feed(one)
                async for one in said:
                    if piece := spoken.feed(one):
                        yield piece
        yield spoken.end()
    except FerruleError as error:
        yield spoken.fail(error)
    finally:
        first.cancel()
