"""ServerConnection: keeps one MCP server connected, in its own task. It knows no other server.

It connects and reads the list of tools. It reads the list again when the server says that it changed; a server that
does not say so is asked every half minute. After a failure it reconnects with increasing pauses, which differ from
server to server. A failure is a state and a message, never an exception.
"""

from __future__ import annotations

import asyncio
import random
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
from ferrule.sources.mcp.login import Login, login_hint
from ferrule.sources.mcp.sampling import Sampler, refuse
from ferrule.sources.mcp.start_limit import RESTARTS, StartLimit
from ferrule.sources.mcp.tasks import TaskHandle, TaskState
from ferrule.sources.mcp.tool_list import ListedTool
from ferrule.sources.status import SourceState

if TYPE_CHECKING:
    from ferrule.sources.mcp.client import Session

_T = TypeVar("_T")
_MAX_MESSAGE = 300
ANNOUNCED = 20
"""How much less often a list is read if the server reports changes: it may forget to, or lie."""


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """Timing of a connection in seconds, and the maximum size of a message in bytes."""

    refresh: float = 30.0
    """How often the list is read of a server that does not report changes. Others are asked `ANNOUNCED` times less."""
    min_gap: float = 0.1
    """The minimum time between two reads of the list, however often a server reports changes."""
    first_pause: float = 0.5
    longest_pause: float = 30.0
    patience: float = 10.0
    """How long running calls may finish when the server cannot be reached any more."""
    steady: float = 10.0
    """A connection that lasted this long resets the pause before reconnecting."""
    max_bytes: int = 8 * 1024 * 1024
    login_patience: float = 0.0
    """How long a call waits for its account to sign in, where accounts are not shared."""
    restarts: StartLimit = RESTARTS


@dataclass(slots=True)
class ServerConnection:
    """One server. `tools` and `faults` come from the last list that was read; `failure` says why it is not ready."""

    server: Server
    elicit: Elicit
    on_change: Callable[[], None]
    options: ConnectionOptions = ConnectionOptions()
    state: SourceState = SourceState.CONNECTING
    protocol_version: str = ""
    failure: str = ""
    tools: tuple[ListedTool, ...] = ()
    faults: tuple[str, ...] = ()
    sampler: Sampler = refuse
    """Answers the server's requests for samples, if its entry allows them."""
    login: Login | None = None
    """What signing in needs; without it, a server that wants a token is a failed one."""
    revision: int = 0
    """Grows with every change of what can be seen here, so that nobody has to compare lists of tools."""
    settled: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the first attempt has succeeded or failed."""
    _session: Session | None = None
    _closing: asyncio.Event = field(default_factory=asyncio.Event)
    _task: asyncio.Task[None] | None = None
    _last_stderr: str = ""

    def open(self) -> None:
        self._task = asyncio.ensure_future(self._run())

    async def close(self) -> None:
        """Close the connection. If the server is a child process, it has exited when this returns."""
        self._closing.set()
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    async def call(self, tool: ListedTool, arguments: Mapping[str, Any], context: CallContext) -> Outcome:
        session = self._session
        if session is None:
            return NotDelivered(f"{self.server.name} is not connected: {self.failure or self.state.value}")
        seconds = self.server.timeouts.call
        if context.deadline is not None:
            seconds = min(seconds, context.deadline - time.time())
        if seconds <= 0:
            return NotDelivered("the deadline has passed", code="timeout")
        answer = await session.call(tool, arguments, context, seconds)
        if not isinstance(answer, TaskState):
            return answer
        from ferrule.sources.mcp.task_poll import TaskPoll

        return await TaskPoll(self, TaskHandle(self.server.identity, tool.name, answer.id), context).begin(answer)

    async def resume(self, handle: TaskHandle, context: CallContext) -> Outcome:
        """Wait for the end of a task that an earlier process began."""
        from ferrule.sources.mcp.task_poll import TaskPoll

        return await TaskPoll(self, handle, context).resume()

    @property
    def session(self) -> Session | None:
        """The live connection; None while there is none."""
        return self._session

    async def _run(self) -> None:
        pause = self.options.first_pause
        while not self._closing.is_set():
            began = time.monotonic()
            self._last_stderr = ""
            # In a task of its own, which `gather` makes: the SDK's cancel scopes cancel the task that they are in, and
            # its task groups raise groups of anything. Neither may end the attempts to connect.
            (ended,) = await asyncio.gather(self._connect_once(), return_exceptions=True)
            if time.monotonic() - began > self.options.steady:
                pause = self.options.first_pause
            if self._closing.is_set():
                break
            if self.login is not None and self.login.is_needed:
                self._set_state(SourceState.NEEDS_LOGIN, login_hint(self.server.name))
                await _first_of(self._closing.wait(), self.login.changed(), asyncio.sleep(self.options.longest_pause))
                await _first_of(self._closing.wait(), self.options.restarts.wait())
                continue
            self._set_state(SourceState.FAILED, _failure_message(ended, self._last_stderr))
            # At random, so that servers that died together do not come back together, again and again.
            await _first_of(self._closing.wait(), asyncio.sleep(pause * random.uniform(0.5, 1)))
            pause = min(pause * 2, self.options.longest_pause)
            await _first_of(self._closing.wait(), self.options.restarts.wait())
        self._set_state(SourceState.CLOSED, "")

    async def _connect_once(self) -> None:
        """Connect, and keep the list of tools up to date until the connection ends."""
        from ferrule.sources.mcp.client import connect

        limits = self.server.timeouts
        async with AsyncExitStack() as stack:
            if self.login is not None:
                await self.login.begin()
            limits_of = (self.options.max_bytes, self._on_exit, self.login, self.sampler)
            entering = connect(self.server, self.elicit, *limits_of)
            async with _limit(limits.connect, "connecting"):
                session = await _until_closing(stack.enter_async_context(entering), self._closing)
            if session is None:
                return
            self.protocol_version = session.protocol_version
            watching = asyncio.ensure_future(session.watch())
            try:
                while not (session.lost.is_set() or self._closing.is_set()):
                    session.list_changed.clear()
                    began = time.monotonic()
                    async with _limit(limits.list, "listing its tools"):
                        listing = await _until_closing(session.tools(), self._closing)
                    if listing is None:
                        return
                    self._session = session
                    tools, faults = listing
                    if self.login is not None:
                        self.login.is_needed = False
                    self._update_tools(tuple(tools), tuple(faults))
                    waits = (session.list_changed.wait(), session.lost.wait(), self._closing.wait())
                    times = ANNOUNCED if session.reports_changes else 1
                    await _first_of(*waits, asyncio.sleep(self.options.refresh * times))
                    gap = self.options.min_gap - (time.monotonic() - began)
                    await _first_of(session.lost.wait(), self._closing.wait(), asyncio.sleep(gap))
            finally:
                # At once, and not when the connection has been closed, which takes seconds.
                self._session = None
                if not (self._closing.is_set() or (self.login is not None and self.login.is_needed)):
                    self._set_state(SourceState.FAILED, "the connection was lost")
                # Even if the list could not be read, answers to running calls may still arrive.
                if session.running and not session.lost.is_set():
                    waits = (session.idle.wait(), session.lost.wait(), self._closing.wait())
                    await _first_of(*waits, asyncio.sleep(self.options.patience))
                watching.cancel()
                await asyncio.gather(watching, return_exceptions=True)

    def _on_exit(self, words: str) -> None:
        self._last_stderr = words

    def _update_tools(self, tools: tuple[ListedTool, ...], faults: tuple[str, ...]) -> None:
        # An unchanged list consists of the same tools, and Python compares those without looking into them.
        is_news = (tools, faults) != (self.tools, self.faults)
        if is_news:
            self.tools, self.faults = tools, faults
        self._set_state(SourceState.READY, "", is_news=is_news)

    def _set_state(self, state: SourceState, failure: str, *, is_news: bool = False) -> None:
        is_news = is_news or state is not self.state
        self.revision += is_news or failure != self.failure
        self.state, self.failure = state, failure
        self.settled.set()
        if is_news:
            self.on_change()


class _LimitReached(FerruleError):
    code = "timeout"


class _limit:  # noqa: N801  # reads as the statement that it is
    """A timeout whose error says what took too long."""

    def __init__(self, seconds: float, doing: str) -> None:
        self._timer = asyncio.timeout(seconds)
        self._message = f"{doing} took more than {seconds:g} seconds"

    async def __aenter__(self) -> None:
        await self._timer.__aenter__()

    async def __aexit__(self, *ended: Any) -> None:
        try:
            await self._timer.__aexit__(*ended)
        except TimeoutError:
            raise _LimitReached(self._message) from None


async def _until_closing(work: Coroutine[Any, Any, _T], closing: asyncio.Event) -> _T | None:
    """Await the work, or return None if closing comes first. The work is cancelled in the task that runs it."""
    task = asyncio.current_task()
    assert task is not None
    watcher = asyncio.ensure_future(closing.wait())
    watcher.add_done_callback(lambda future: None if future.cancelled() else task.cancel())
    try:
        return await work
    except asyncio.CancelledError:
        if closing.is_set() and task.uncancel() == 0:
            return None
        raise
    finally:
        watcher.cancel()
        with suppress(asyncio.CancelledError):
            await watcher


async def _first_of(*waits: Coroutine[Any, Any, Any]) -> None:
    """Wait until the first of them is done."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _failure_message(ended: object, last_stderr: str) -> str:
    """Why a connection ended: the innermost exception, and the last line on a process's stderr."""
    reason = ended if isinstance(ended, BaseException) else None
    while isinstance(reason, BaseExceptionGroup):
        reason = cast("BaseExceptionGroup[BaseException]", reason).exceptions[0]
    match reason:
        case OSError() if reason.strerror:
            message = f"cannot be started or reached: {reason.strerror}"
        case None:
            message = "the connection was lost"
        case _:
            message = f"{reason!s:.{_MAX_MESSAGE}}" or type(reason).__name__
    return f"{message} (stderr: {last_stderr})" if last_stderr else message
