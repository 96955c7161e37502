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
from ferrule.core.tool import ToolDefinition
from ferrule.engines.sync import run
from ferrule.errors import UnsupportedError
from ferrule.rules.claims import Claims, claims_of

# Between two values of a call stand about eight tokens that are forced (`scripts/bench-skip`).
_DEAREST = 6.0
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
    going_on: float | None = None
    """What one more request costs on a prompt that it has just seen, with a little more behind it, in tokens that it
    could have written instead; None where it is not known."""
    stops: int | None = None
    """How many texts a request may be stopped by; None where it may be any number."""

    @property
    def goes_on_cheaply(self) -> bool:
        """Whether what a rule forces between two values is, as a rule, more than the request that skipping it costs."""
        return self.going_on is not None and self.going_on <= _DEAREST


@dataclass(frozen=True, slots=True)
class Enforcement:
    """What holds the calls of one tool to its schema. `target` is the language of the rule, empty where none holds."""

    target: str
    claims: Claims


def unheld(tool: ToolDefinition) -> Enforcement:
    """Of an engine that is held by nothing: every call is checked after it was written."""
    return Enforcement("", claims_of(tool, None))


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

    async def enforcement(self, tool: ToolDefinition) -> Enforcement:
        """How calls of a tool would be held to its schema, keyword by keyword, as a receipt says it of one call."""
        return unheld(tool)

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
