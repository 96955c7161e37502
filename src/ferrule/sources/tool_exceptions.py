"""Run a tool's code: what it raises becomes an outcome for the model and a log record for the developer.

The model sees no stack trace and no secret. The log record has the traceback, because an exception that a tool did not
mean to raise is a bug in it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from typing import Any

from ferrule.core.outcome import Answered, Outcome
from ferrule.errors import FerruleError, ToolError

_log = logging.getLogger(__name__)
_NEVER_CAUGHT = (asyncio.CancelledError, KeyboardInterrupt, SystemExit, GeneratorExit)


async def run_tool(name: str, work: Awaitable[Any]) -> Outcome:
    """Await a tool's code and return its outcome. Cancellation and exit exceptions propagate."""
    task = asyncio.current_task()
    cancel_requests = task.cancelling() if task else 0
    try:
        outcome: Outcome = Answered(await work)
    except _NEVER_CAUGHT:
        raise
    # A tool's code may raise anything, and one tool must not end the conversation. Extensions in other languages raise
    # classes that are not even an `Exception`, such as PyO3's panics.
    except BaseException as error:
        outcome = outcome_of_exception(name, error)
    if task and task.cancelling() > cancel_requests:
        # The tool suppressed its cancellation, but the caller that cancelled it must not wait for it.
        raise asyncio.CancelledError
    return outcome


def outcome_of_exception(name: str, error: BaseException) -> Outcome:
    """The outcome for the model: the message of a Ferrule error, only the type of any other exception."""
    if isinstance(error, FerruleError):
        return Answered(error.message, is_error=True, code=error.code)
    kind = type(error).__name__
    _log.error("the tool %r raised %s", name, kind, exc_info=error)
    return Answered(f"the tool failed ({kind})", is_error=True, code=ToolError.code)
