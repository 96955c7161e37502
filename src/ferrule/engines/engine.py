"""Engine: something that answers a request with events. A whole reply is the fold of them and nothing else.

Must not know how any engine generates, nor in which API it is asked.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from ferrule.core.event import Event
from ferrule.core.reply import Folding, Reply
from ferrule.core.request import ToolCallRequest
from ferrule.engines.bridge import run
from ferrule.errors import UnsupportedError

ALL_CHOICES = frozenset({"auto", "none", "required", "one", "allowed"})
"""Every way in which a request can choose; `chat_choice.word_of` gives the word for one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """What an engine takes, as data. `targets` are the languages in which it can be held to a rule, best first.

    `honours` are the choices that it is known to keep by itself, "auto" always; whatever else a request asks for is
    held another way or refused before anything is generated.
    """

    name: str
    targets: tuple[str, ...] = ()
    honours: frozenset[str] = frozenset({"auto", "none"})
    parallel: bool = True
    """Whether it can be told to make one call only."""
    goes_on_cheaply: bool = False
    """Whether a prompt that it has just seen, with a little more behind it, costs it only the little more."""


class Engine(ABC):
    """What every engine has. Close it when done, or use it as an asynchronous context."""

    traits: Traits

    @abstractmethod
    def stream(self, request: ToolCallRequest) -> AsyncGenerator[Event, None]:
        """The answer as it forms. To stop it, `aclose` the generator: that reaches whatever generates."""

    async def generate_with_tools(self, request: ToolCallRequest) -> Reply:
        """The whole answer."""
        folding = Folding()
        async with aclosing(self.stream(request)) as events:
            async for event in events:
                folding.add(event)
        return folding.reply()

    async def count_tokens(self, request: ToolCallRequest) -> int:
        """How many tokens the prompt of a request has, by the model's own tokenizer."""
        raise UnsupportedError(
            f"{self.traits.name} does not count tokens", hint="Ask, and read the usage of the answer."
        )

    def generate(self, request: ToolCallRequest) -> Reply:
        """The whole answer, for a program that is not asynchronous."""
        return run(self.generate_with_tools(request))

    @abstractmethod
    async def close(self) -> None:
        """Gives back what the engine holds."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
