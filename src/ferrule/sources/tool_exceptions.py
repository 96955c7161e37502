"""Raised: what a tool's own code raised, kept and told of without a stack or a secret. Knows no kind of tool."""

from __future__ import annotations

import asyncio

from ferrule.core.outcome import Answered, Outcome
from ferrule.errors import FerruleError, ToolError

_ENDS = (asyncio.CancelledError, KeyboardInterrupt, SystemExit, GeneratorExit)


class Raised:
    """Keeps what was raised inside it, whatever it is. What ends the task or the program goes on its way."""

    __slots__ = ("_cancelled", "_task", "error")

    def __init__(self) -> None:
        self.error: BaseException | None = None

    def __enter__(self) -> None:
        self._task = asyncio.current_task()
        self._cancelled = self._task.cancelling() if self._task else 0

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        if self._task and self._task.cancelling() > self._cancelled and not isinstance(error, asyncio.CancelledError):
            # The tool kept its cancellation to itself, but whoever cancelled the call does not wait for it.
            raise asyncio.CancelledError
        self.error = None if isinstance(error, _ENDS) else error
        return self.error is not None

    @property
    def outcome(self) -> Outcome:
        """What is told of it: words only where they are meant for a reader."""
        if isinstance(self.error, FerruleError):
            return Answered(self.error.message, is_error=True, code=self.error.code)
        return Answered(f"the tool failed ({type(self.error).__name__})", is_error=True, code=ToolError.code)
