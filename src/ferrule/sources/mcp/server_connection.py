"""A link: one MCP server kept connected, in a task of its own, and what is known of it. Knows no other server.

It connects, reads the list of tools, reads it again when the server says so and every half minute, and connects anew
after a death, waiting longer each time. Whatever goes wrong is a state and words, never an exception.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ferrule.core.context import CallContext
from ferrule.core.outcome import NotDelivered, Outcome
from ferrule.errors import FerruleError
from ferrule.sources.mcp.config import Server
from ferrule.sources.mcp.elicitation import Elicit
from ferrule.sources.mcp.tool_list import Listed
from ferrule.sources.status import State

if TYPE_CHECKING:
    from ferrule.sources.mcp.client import Session

_T = TypeVar("_T")
_SHOWN = 300


@dataclass(frozen=True, slots=True)
class Habits:
    """Seconds between two readings of a list, and before a server is tried again; bytes of one message at most."""

    refresh: float = 30.0
    least_gap: float = 0.1
    """Between two readings, however often a server says that its list has changed."""
    first_pause: float = 0.5
    longest_pause: float = 30.0
    patience: float = 10.0
    """For calls that run when a server cannot be reached any more, before the connection is given up."""
    steady: float = 10.0
    """A connection that lasted so long is no reason to wait before the next."""
    most_bytes: int = 8 * 1024 * 1024


@dataclass(slots=True)
class Link:
    """`tools` and `faults` are of the last list that was read; `told` is why the server is not ready."""

    server: Server
    elicit: Elicit
    changed: Callable[[], None]
    habits: Habits = Habits()
    state: State = State.CONNECTING
    era: str = ""
    told: str = ""
    tools: tuple[Listed, ...] = ()
    faults: tuple[str, ...] = ()
    settled: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once the first attempt has come to something."""
    _session: Session | None = None
    _closing: asyncio.Event = field(default_factory=asyncio.Event)
    _task: asyncio.Task[None] | None = None
    _last_words: str = ""

    def open(self) -> None:
        self._task = asyncio.ensure_future(self._keep())

    async def close(self) -> None:
        """Ends the connection; a server that is a process has ended when this comes back."""
        self._closing.set()
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    async def call(self, tool: Listed, arguments: Mapping[str, Any], context: CallContext) -> Outcome:
        session = self._session
        if session is None:
            return NotDelivered(f"{self.server.name} is not connected: {self.told or self.state.value}")
        seconds = self.server.timeouts.call
        if context.deadline is not None:
            seconds = min(seconds, context.deadline - time.time())
        if seconds <= 0:
            return NotDelivered("its deadline has passed", code="timeout")
        return await session.call(tool, arguments, context, seconds)

    async def _keep(self) -> None:
        pause = self.habits.first_pause
        while not self._closing.is_set():
            began = time.monotonic()
            self._last_words = ""
            # Gathered, because what an SDK's task groups raise is a group of anything; it must not end the link.
            (ended,) = await asyncio.gather(self._connection(), return_exceptions=True)
            if time.monotonic() - began > self.habits.steady:
                pause = self.habits.first_pause
            if self._closing.is_set():
                break
            self._became(State.FAILED, _words_of(ended, self._last_words))
            await _either(self._closing.wait(), asyncio.sleep(pause))
            pause = min(pause * 2, self.habits.longest_pause)
        self._became(State.CLOSED, "")

    async def _connection(self) -> None:
        """From one connection's beginning to its end."""
        from ferrule.sources.mcp.client import connected

        limits = self.server.timeouts
        async with AsyncExitStack() as stack:
            entering = connected(self.server, self.elicit, self.habits.most_bytes, self._heard_last)
            async with _limit(limits.connect, "connecting"):
                session = await _closable(stack.enter_async_context(entering), self._closing)
            if session is None:
                return
            self.era = session.era
            watching = asyncio.ensure_future(session.watch())
            try:
                while not (session.lost.is_set() or self._closing.is_set()):
                    session.stirred.clear()
                    began = time.monotonic()
                    async with _limit(limits.list, "listing its tools"):
                        found = await _closable(session.tools(), self._closing)
                    if found is None:
                        return
                    self._session = session
                    tools, faults = found
                    self._read(tuple(tools), tuple(faults))
                    waits = (session.stirred.wait(), session.lost.wait(), self._closing.wait())
                    await _either(*waits, asyncio.sleep(self.habits.refresh))
                    gap = self.habits.least_gap - (time.monotonic() - began)
                    await _either(session.lost.wait(), self._closing.wait(), asyncio.sleep(gap))
            finally:
                # At once, and not when the connection has been taken down, which takes seconds.
                self._session = None
                if not self._closing.is_set():
                    self._became(State.FAILED, "it went away")
                # A list that could not be read says nothing of answers that are still on their way.
                if session.running and not session.lost.is_set():
                    waits = (session.idle.wait(), session.lost.wait(), self._closing.wait())
                    await _either(*waits, asyncio.sleep(self.habits.patience))
                watching.cancel()
                await asyncio.gather(watching, return_exceptions=True)

    def _heard_last(self, words: str) -> None:
        self._last_words = words

    def _read(self, tools: tuple[Listed, ...], faults: tuple[str, ...]) -> None:
        is_news = (tools, faults) != (self.tools, self.faults)
        self.tools, self.faults = tools, faults
        self._became(State.READY, "", is_news=is_news)

    def _became(self, state: State, told: str, *, is_news: bool = False) -> None:
        is_news = is_news or state is not self.state
        self.state, self.told = state, told
        self.settled.set()
        if is_news:
            self.changed()


class _LimitReached(FerruleError):
    code = "timeout"


class _limit:  # noqa: N801  # reads as the statement that it is
    """A time limit that says what took too long."""

    def __init__(self, seconds: float, doing: str) -> None:
        self._timer = asyncio.timeout(seconds)
        self._told = f"{doing} took more than {seconds:g} seconds"

    async def __aenter__(self) -> None:
        await self._timer.__aenter__()

    async def __aexit__(self, *ended: Any) -> None:
        try:
            await self._timer.__aexit__(*ended)
        except TimeoutError:
            raise _LimitReached(self._told) from None


async def _closable(work: Coroutine[Any, Any, _T], closing: asyncio.Event) -> _T | None:
    """What the work gives, unless closing comes first: then it is cancelled, in the very task that it runs in."""
    task = asyncio.current_task()
    assert task is not None
    watching = asyncio.ensure_future(closing.wait())
    watching.add_done_callback(lambda waited: None if waited.cancelled() else task.cancel())
    try:
        return await work
    except asyncio.CancelledError:
        if closing.is_set() and task.uncancel() == 0:
            return None
        raise
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching


async def _either(*waits: Coroutine[Any, Any, Any]) -> None:
    """Until the first of them is over."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _words_of(ended: object, last_words: str) -> str:
    """What ended a connection: the innermost reason, and what a process said last."""
    reason = ended if isinstance(ended, BaseException) else None
    while isinstance(reason, BaseExceptionGroup):
        reason = cast("BaseExceptionGroup[BaseException]", reason).exceptions[0]
    match reason:
        case OSError() if reason.strerror:
            told = f"it cannot be started or reached: {reason.strerror}"
        case None:
            told = "it went away"
        case _:
            told = f"{reason!s:.{_SHOWN}}" or type(reason).__name__
    return f"{told} (it said: {last_words})" if last_words else told
