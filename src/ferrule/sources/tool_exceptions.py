"""Run a tool's code: what it raises becomes an outcome for the model and a log record for the developer.

A tool is a guest: nothing that it raises ends the task, the event loop or the process that runs it. `sys.exit()` in a
tool ends the tool. The model sees no stack trace and no secret. The log record has the traceback, because an exception
that a tool did not mean to raise is a bug in it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Coroutine, Generator
from contextvars import ContextVar
from typing import Any

from ferrule.core.outcome import Answered, Outcome
from ferrule.errors import FerruleError, ToolError
from ferrule.sources.tool_output import to_json_value, with_media

_log = logging.getLogger(__name__)
_runs_tool: ContextVar[bool] = ContextVar("ferrule_runs_tool", default=False)


async def run_tool(name: str, work: Awaitable[Any]) -> Outcome:
    """Await a tool's code and return its outcome, with its value as JSON. Only the caller's cancellation propagates."""
    task = asyncio.current_task()
    cancel_requests = task.cancelling() if task else 0
    marker = _runs_tool.set(True)
    try:
        # Converting the value runs methods of the tool's own classes, which may raise anything too.
        outcome: Outcome = with_media(Answered(to_json_value(await work)))
    # A tool's code may raise anything, and one tool must not end the conversation or the process. Extensions in other
    # languages raise classes that are not even an `Exception`, such as PyO3's panics.
    except BaseException as error:
        if _is_ours(error, task):
            raise
        outcome = outcome_of_exception(name, error)
    finally:
        _runs_tool.reset(marker)
    if task and task.cancelling() > cancel_requests:
        # The tool suppressed its cancellation, but the caller that cancelled it must not wait for it.
        raise asyncio.CancelledError
    return outcome


def create_guarded_task(
    loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any] | Generator[Any, None, Any], **options: Any
) -> asyncio.Task[Any]:
    """A task factory: `sys.exit()` in a task that a tool starts ends that task, and not the event loop.

    asyncio raises `SystemExit` and `KeyboardInterrupt` of any task out of the loop itself, where `run_tool` cannot
    catch them.

    Example:
        loop.set_task_factory(create_guarded_task)
    """
    if _runs_tool.get() and isinstance(work, Coroutine):
        work = _guard(work)
    return asyncio.Task(work, loop=loop, **options)


async def _guard(work: Coroutine[Any, Any, Any]) -> Any:
    try:
        return await work
    except (SystemExit, KeyboardInterrupt) as error:
        raise RuntimeError(f"a task of a tool raised {type(error).__name__}") from error


def _is_ours(error: BaseException, task: asyncio.Task[Any] | None) -> bool:
    """Whether an exception comes from the caller and not from the tool."""
    if isinstance(error, asyncio.CancelledError):
        # Without a request to cancel this task, the tool raised it: it cancelled something of its own.
        return task is None or task.cancelling() > 0
    if isinstance(error, GeneratorExit):
        # A coroutine that is closed and not run to its end gets this exception outside of its task.
        return _current_task() is not task
    return False


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


def outcome_of_exception(name: str, error: BaseException) -> Outcome:
    """The outcome for the model: the message of a Ferrule error, only the type of any other exception."""
    if isinstance(error, FerruleError):
        return Answered(error.message, is_error=True, code=error.code)
    kind = type(error).__name__
    _log.error("the tool %r raised %s", name, kind, exc_info=error)
    return Answered(f"the tool failed ({kind})", is_error=True, code=ToolError.code)
