"""How an answer leaves: whole, or as events while it forms. Knows no dialect; a `Spoken` is one.

The first event is waited for before anything is sent, so that what fails at once fails with a status and in the
client's own shape. While nothing happens, keep-alives are sent.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Iterable
from contextlib import AsyncExitStack, aclosing
from typing import Protocol

from ferrule.core.event import Event
from ferrule.core.reply import Folding, Reply
from ferrule.errors import EngineTimeoutError, FerruleError
from ferrule.run.happened import LoopEvent
from ferrule.server.config import Limits
from ferrule.server.exchange import Streamed
from ferrule.server.rounds import Aside, Rounds

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


async def said_in(events: AsyncGenerator[LoopEvent], rounds: Rounds, limits: Limits) -> AsyncGenerator[Said | None]:
    """What an answer says, under its deadlines; None where nothing was said for as long as a keep-alive takes."""
    until = time.monotonic() + limits.total_seconds
    patience = limits.first_seconds
    async with aclosing(events):
        waited = 0.0
        waiting = asyncio.ensure_future(anext(events, None))
        try:
            while True:
                pause = min(limits.keep_alive_seconds, patience - waited, max(until - time.monotonic(), 0.0))
                done, _ = await asyncio.wait({waiting}, timeout=max(pause, 0.0))
                if not done:
                    waited += pause
                    if waited >= patience or time.monotonic() >= until:
                        raise EngineTimeoutError("the answer took too long", hint="Ask for less, or raise the limits.")
                    yield None
                    continue
                event = waiting.result()
                if event is None:
                    return
                waited, patience = 0.0, limits.between_seconds
                waiting = asyncio.ensure_future(anext(events, None))
                for said in rounds.feed(event):
                    yield said
        finally:
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)


async def whole(said: AsyncGenerator[Said | None]) -> tuple[Reply, list[Aside]]:
    """The whole answer, and what was told beside it."""
    folding = Folding()
    asides: list[Aside] = []
    async with aclosing(said):
        async for one in said:
            if isinstance(one, Aside):
                asides.append(one)
            elif one is not None:
                folding.add(one)
    return folding.reply(), asides


async def streamed(said: AsyncGenerator[Said | None], spoken: Spoken) -> Streamed:
    """The answer as it forms. What fails before anything was said is raised here."""
    first: list[Said | None] = []
    begun = time.monotonic()
    async with AsyncExitStack() as stack:
        stack.push_async_callback(said.aclose)
        while time.monotonic() - begun < _PATIENCE:
            one = await anext(said, _END)
            if isinstance(one, _End):
                return Streamed(_pieces(first, None, spoken))
            first.append(one)
            if one is not None:
                break
        stack.pop_all()
    return Streamed(_pieces(first, said, spoken))


class _End:
    """There is nothing more."""


_END = _End()


async def _pieces(
    first: Iterable[Said | None], said: AsyncGenerator[Said | None] | None, spoken: Spoken
) -> AsyncGenerator[bytes, None]:
    try:
        for one in first:
            if one is not None and (piece := spoken.feed(one)):
                yield piece
        if said is not None:
            async with aclosing(said):
                async for one in said:
                    piece = spoken.keep_alive if one is None else spoken.feed(one)
                    if piece:
                        yield piece
        yield spoken.end()
    except FerruleError as error:
        yield spoken.fail(error)
