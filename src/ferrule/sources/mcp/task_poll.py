"""TaskPoll: waits for the end of one task of an MCP server, over as many connections as that takes.

The task's id is recorded before anything else is done with it. Then the server is asked at the interval that it names,
and what changes is reported as progress. A server that cannot be reached is asked again, because the task may well be
done by then. Only silence ends the wait: a task that shows no progress for the server's `taskTimeout`. The other time
limits of the call stand still meanwhile; a deadline of the caller holds.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from mcp import MCPError

from ferrule.core.context import CallContext
from ferrule.core.outcome import Answered, Outcome, Unknown
from ferrule.errors import FerruleError, ToolError
from ferrule.sources.call_timer import CallTimer
from ferrule.sources.mcp.client import is_from_transport
from ferrule.sources.mcp.results import INVALID_PARAMS, METHOD_NOT_FOUND, outcome_of_error, outcome_of_result
from ferrule.sources.mcp.tasks import CANCELLED, COMPLETED, INPUT_REQUIRED, TaskHandle, TaskState

if TYPE_CHECKING:
    from ferrule.sources.mcp.client import Session
    from ferrule.sources.mcp.server_connection import ServerConnection

_CANCEL_SECONDS = 10.0
_RETRY_SECONDS = 0.5
_UNREACHED_POLL = 1.0
# What a server answers that has no such task.
_FORGOTTEN = frozenset({INVALID_PARAMS, METHOD_NOT_FOUND})


@dataclass(slots=True)
class TaskPoll:
    """One task, from when it is known until it has ended."""

    connection: ServerConnection
    handle: TaskHandle
    context: CallContext
    _heard: float = field(default_factory=time.monotonic)
    """When the task last showed progress."""
    _updates: int = 0
    _state: TaskState | None = None
    _answered: set[str] = field(default_factory=set[str])
    """The keys of the questions that were answered."""
    _result: asyncio.Task[dict[str, Any]] | None = None
    """Waits for the result, in the older protocol: over it the server asks its questions."""

    async def begin(self, state: TaskState) -> Outcome:
        """Record a task that has just begun, and wait for its end."""
        try:
            await self.context.task.keep(self.handle.text)
        except asyncio.CancelledError:
            # It may be recorded all the same.
            if not self.context.is_stopping():
                await _finish(self._cancel())
            raise
        except FerruleError:
            # Nobody else will know of it.
            await self._cancel()
            raise
        return await self._wait(state)

    async def resume(self) -> Outcome:
        """Wait for the end of a task that was recorded before."""
        return await self._wait(None)

    async def _wait(self, state: TaskState | None) -> Outcome:
        # Where the caller has a timer that is paused too, that timer keeps the deadline.
        is_kept_outside = self.context.pause is not nullcontext
        deadline = None if is_kept_outside else self.context.deadline
        timer = CallTimer(self._limit, deadline=deadline, outer=self.context.pause, outer_renew=self.context.renew)
        self.context = replace(self.context, pause=timer.pause, renew=timer.renew)
        try:
            async with timer:
                with timer.pause():
                    return await self._poll(state)
        except TimeoutError:
            await self._cancel_if_owned()
            return Unknown("the task did not end before the call's deadline", code="timeout")
        except asyncio.CancelledError:
            if not self.context.is_stopping():
                await _finish(self._cancel_if_owned())
            raise
        finally:
            if self._result is not None:
                self._result.cancel()
                await asyncio.gather(self._result, return_exceptions=True)

    @property
    def _limit(self) -> float:
        return self.connection.server.timeouts.task

    async def _poll(self, state: TaskState | None) -> Outcome:
        while True:
            outcome = None if state is None else await self._take(state)
            if outcome is not None:
                return outcome
            if time.monotonic() - self._heard > self._limit:
                await self._cancel_if_owned()
                return Unknown(f"its task showed no progress for {self._limit:g} seconds", code="timeout")
            if state is not None or self._state is not None:
                await asyncio.sleep(_UNREACHED_POLL if state is None else state.poll_seconds)
            session = await self._session()
            if session is None:
                state = None
                continue
            try:
                with session.running_call(self.context):
                    state = await session.tasks.state(self.handle.id)
            except MCPError as error:
                if error.code in _FORGOTTEN and not is_from_transport(error):
                    return Unknown(f"the server has lost its task: {error.message:.300}", code="task_lost")
                state = None
            except ValueError:
                state = None
            # The SDK raises whatever its transports raise. Whichever it is, the task may still run.
            except Exception:
                state = None
            if state is None:
                await asyncio.sleep(_RETRY_SECONDS)

    async def _session(self) -> Session | None:
        """The connection to the server, as soon as there is one; None if there is none for a while."""
        give_up = time.monotonic() + _UNREACHED_POLL
        while self.connection.session is None and time.monotonic() < give_up:
            await asyncio.sleep(0.05)
        return self.connection.session

    async def _take(self, state: TaskState) -> Outcome | None:
        """Report what has changed, and do what the state asks for. Returns the outcome of a task that has ended."""
        if self._state is None or state.progress != self._state.progress:
            self._updates += 1
            self._note_progress()
            self.context.report(float(self._updates), None, state.message or state.status)
        self._state = state
        if state.has_ended:
            return await self._outcome(state)
        if state.status == INPUT_REQUIRED:
            return await self._answer(state)
        return None

    async def _answer(self, state: TaskState) -> Outcome | None:
        """Have somebody answer what the server asks. Returns an outcome if that is refused: the task is cancelled."""
        session = self.connection.session
        new = {key: request for key, request in state.requests.items() if key not in self._answered}
        if session is None:
            return None
        if not session.tasks.is_modern:
            if self._result is None or self._result.done():
                self._result = asyncio.ensure_future(self._result_over(session))
            # Somebody may take long to answer, and the server says nothing meanwhile.
            self._note_progress()
            return None
        if not new:
            return None
        try:
            with session.running_call(self.context):
                await session.tasks.answer(self.handle.id, new, self.context.is_stopping)
        except MCPError as error:
            if is_from_transport(error):
                return None
            await self._cancel_if_owned()
            return outcome_of_error(error.code, error.message, is_from_transport=False)
        except ValueError:
            await self._cancel_if_owned()
            return Answered("the server's task asks something that violates the protocol", is_error=True)
        self._answered |= set(new)
        self._note_progress()
        return None

    def _note_progress(self) -> None:
        self._heard = time.monotonic()
        self.context.renew()

    async def _result_over(self, session: Session) -> dict[str, Any]:
        with session.running_call(self.context):
            return await session.tasks.result(self.handle.id)

    async def _outcome(self, state: TaskState) -> Outcome | None:
        """The outcome of a task that has ended; None if the result cannot be fetched now."""
        if state.status == CANCELLED:
            message = f"the task was cancelled: {state.message}" if state.message else "the task was cancelled"
            return Answered(message, is_error=True, code="cancelled")
        if state.error is not None and state.status != COMPLETED:
            code = state.error.get("code")
            message = str(state.error.get("message") or state.message)
            return outcome_of_error(code if isinstance(code, int) else 0, message, is_from_transport=False)
        result = state.result
        if result is None:
            session = self.connection.session
            if session is None:
                return None
            if session.tasks.is_modern:
                return Answered(state.message or "the task failed", is_error=True, code=ToolError.code)
            try:
                result = await (self._result or self._result_over(session))
            except MCPError as error:
                self._result = None
                if is_from_transport(error) or self.connection.session is not session:
                    return None
                return outcome_of_error(error.code, error.message, is_from_transport=False)
        schema = next((tool.output for tool in self.connection.tools if tool.name == self.handle.tool), None)
        return outcome_of_result(result, schema)

    async def _cancel_if_owned(self) -> None:
        """Cancel the task, unless another process has taken the call over and waits for it."""
        with suppress(FerruleError):
            await self.context.task.keep(self.handle.text)
            await self._cancel()

    async def _cancel(self) -> None:
        session = self.connection.session
        if session is not None:
            # Best effort: the server may be gone, or know no such method.
            with suppress(Exception):
                async with asyncio.timeout(_CANCEL_SECONDS):
                    await session.tasks.cancel(self.handle.id)


async def _finish(work: Coroutine[Any, Any, None]) -> None:
    """Finish some work in a task that was cancelled; a second cancellation does not wait for it."""
    await asyncio.shield(asyncio.ensure_future(work))
