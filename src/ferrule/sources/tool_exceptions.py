"""ToolExceptions: turns an exception from a tool's code into an outcome, without a stack trace or a secret."""

from __future__ import annotations

import asyncio

from ferrule.core.outcome import Answered, Outcome
from ferrule.errors import FerruleError, ToolError

_NEVER_CAUGHT = (asyncio.CancelledError, KeyboardInterrupt, SystemExit, GeneratorExit)


class ToolExceptions:
    """A context manager that catches what a tool raises. Cancellation and exit exceptions propagate."""

    __slots__ = ("_cancel_requests", "_task", "error")

    def __init__(self) -> None:
        self.error: BaseException | None = None

    def __enter__(self) -> None:
        self._task = asyncio.current_task()
        self._cancel_requests = self._task.cancelling() if self._task else 0

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        if (
            self._task
            and self._task.cancelling() > self._cancel_requests
            and not isinstance(error, asyncio.CancelledError)
        ):
            # The tool suppressed its cancellation, but the caller that cancelled it must not wait for it.
            raise asyncio.CancelledError
        self.error = None if isinstance(error, _NEVER_CAUGHT) else error
        return self.error is not None

    @property
    def outcome(self) -> Outcome:
        """The outcome for the model: the message of a Ferrule error, only the type of any other exception."""
        if isinstance(self.error, FerruleError):
            return Answered(self.error.message, is_error=True, code=self.error.code)
        return Answered(f"the tool failed ({type(self.error).__name__})", is_error=True, code=ToolError.code)
