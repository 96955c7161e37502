"""Source: where tools come from and run. Must not know the loop, approvals or any model.

A tool is found by its source and its name there, never by cutting a name apart.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Mapping
from types import TracebackType
from typing import Any, Self

from ferrule.core.context import CallContext
from ferrule.core.outcome import Answered, Outcome, Unknown
from ferrule.core.tool import ToolDefinition
from ferrule.sources.status import Standing


async def within(seconds: float, work: Awaitable[Outcome], *, changes_the_world: bool) -> Outcome:
    """What work comes to, or that it took too long: of what may have changed the world by then nobody can say."""
    try:
        async with asyncio.timeout(seconds):
            return await work
    except TimeoutError:
        told = f"no answer within {seconds:g} seconds"
        if changes_the_world:
            return Unknown(told, code="timeout")
        return Answered(f"timeout: {told}", is_error=True, code="timeout")


class Source(ABC):
    """What every source has. Open it before use and close it after, or use it as an asynchronous context."""

    id: str
    kind: str = "other"
    """A word for what sort of source it is, for people who look at several."""

    @abstractmethod
    async def tools(self) -> tuple[ToolDefinition, ...]:
        """The tools that can be called now."""

    @abstractmethod
    async def call(self, name: str, arguments: Mapping[str, Any], context: CallContext) -> Outcome:
        """Run a tool. Arguments have been checked. Whatever goes wrong is an outcome; only cancellation raises."""

    @property
    def held_back(self) -> tuple[str, ...]:
        """Tools that are there and not offered, such as one that is not what was agreed to."""
        return ()

    @property
    def notices(self) -> tuple[str, ...]:
        """What a person should know about the tools, in words."""
        return ()

    @property
    def standings(self) -> tuple[Standing, ...]:
        """How it stands with the source, as far as it is known without asking anybody."""
        return (Standing(self.id, self.kind),)

    async def changes(self) -> AsyncGenerator[None]:
        """Yields whenever the list of tools may have changed. Most sources never do."""
        return
        yield

    async def open(self) -> None:  # noqa: B027  # most sources hold nothing
        """Connects to wherever the tools are."""

    async def close(self) -> None:  # noqa: B027
        """Gives back what is held."""

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
