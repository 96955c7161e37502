"""Source: lists tools and runs them. It knows nothing of the tool loop, approvals or models.

A tool is identified by its source and its name there; a name is never split to find its source.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Mapping
from types import TracebackType
from typing import Any, Self

from ferrule.core.context import CallContext
from ferrule.core.outcome import Answered, NotDelivered, Outcome, Unknown
from ferrule.core.tool import ToolDefinition
from ferrule.sources.call_timer import CallTimer
from ferrule.sources.status import SourceStatus, ToolLoad


async def run_with_timeout(
    seconds: float, work: Awaitable[Outcome], *, has_side_effects: bool, timer: CallTimer | None = None
) -> Outcome:
    """Await an outcome, with a time limit. `timer` is one that the work can pause.

    After a timeout the outcome of a tool with side effects is `Unknown`: it may have taken effect. For any other tool
    the timeout is an error that the model can act on.
    """
    try:
        async with timer or CallTimer(seconds):
            return await work
    except TimeoutError:
        message = f"no answer within {seconds:g} seconds"
        if has_side_effects:
            return Unknown(message, code="timeout")
        return Answered(f"timeout: {message}", is_error=True, code="timeout")


class Source(ABC):
    """Base class of all sources. Open it before use and close it afterwards, or use it with `async with`."""

    id: str
    kind: str = "other"
    """The kind of source, such as "mcp"; shown to users."""

    @abstractmethod
    async def tools(self) -> tuple[ToolDefinition, ...]:
        """Return the tools that can be called now."""

    @abstractmethod
    async def call(self, name: str, arguments: Mapping[str, Any], context: CallContext) -> Outcome:
        """Run a tool. The arguments are already validated. Every failure is an outcome; only cancellation raises."""

    @property
    def quarantined(self) -> tuple[str, ...]:
        """Names of tools that exist but are not offered, such as one whose definition changed since it was pinned."""
        return ()

    @property
    def notices(self) -> tuple[str, ...]:
        """Messages for the operator about the tools."""
        return ()

    @property
    def statuses(self) -> tuple[SourceStatus, ...]:
        """The status of the source, as far as it is known without a request."""
        return (SourceStatus(self.id, self.kind),)

    @property
    def loads(self) -> tuple[ToolLoad, ...]:
        """What running calls take up in this process, by tool. Most sources run their tools elsewhere."""
        return ()

    def refusal(self, name: str, context: CallContext) -> NotDelivered | None:
        """Why a call would certainly be refused now; None if it may be tried. It costs nothing to ask."""
        return None

    async def changes(self) -> AsyncGenerator[None]:
        """Yield whenever the list of tools may have changed. Most sources never do."""
        return
        yield

    async def open(self) -> None:  # noqa: B027  # most sources hold nothing
        """Connect to the place where the tools run."""

    async def close(self) -> None:  # noqa: B027
        """Release connections, processes and threads."""

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
