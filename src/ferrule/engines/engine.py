"""Engine: the interface of everything that turns a request into a stream of events.

A whole reply is always the fold of those events, so streaming and non-streaming callers see the same answer. This
module must not know how an engine generates text or which HTTP API it uses.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from ferrule.core.event import Event
from ferrule.core.reply import Reply, ReplyFold
from ferrule.core.request import ToolCallRequest
from ferrule.core.tool import ToolDefinition
from ferrule.engines.sync import run
from ferrule.errors import UnsupportedError
from ferrule.rules.claims import Claims, claims_of

# About eight forced tokens lie between two values of a call (measured by `scripts/bench-skip`). A request that costs
# more than six tokens leaves too little gain.
_MAX_CHEAP_CONTINUATION = 6.0
ALL_CHOICES = frozenset({"auto", "none", "required", "one", "allowed"})
"""Every kind of `tool_choice`; `engines.chat.choice.choice_kind` names the kind of one choice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """What an engine supports, as data.

    `targets` are the grammar languages that it enforces, best first. `honours` are the kinds of `tool_choice` that it
    follows by itself ("auto" always). Any other choice is expressed in another way, or refused before anything is
    generated.
    """

    name: str
    targets: tuple[str, ...] = ()
    honours: frozenset[str] = frozenset({"auto", "none"})
    parallel: bool = True
    """Whether the engine can be limited to one call per answer."""
    continuation_cost: float | None = None
    """The cost of one more request on a prompt that the engine has just read, with a little text appended.

    Counted in tokens that the engine could have generated in that time; None if unknown.
    """
    max_stops: int | None = None
    """How many stop strings one request may have; None means any number."""

    @property
    def continues_cheaply(self) -> bool:
        """Whether skipping usually pays: the forced text between two values costs more than one more request."""
        return self.continuation_cost is not None and self.continuation_cost <= _MAX_CHEAP_CONTINUATION


@dataclass(frozen=True, slots=True)
class Enforcement:
    """How calls of one tool are kept to its schema. `target` is the grammar language, empty if there is no grammar."""

    target: str
    claims: Claims


def no_enforcement(tool: ToolDefinition) -> Enforcement:
    """The enforcement of an engine without a grammar: every call is checked after it was generated."""
    return Enforcement("", claims_of(tool, None))


class Engine(ABC):
    """The interface of every engine. Close an engine when you are done, or use it with `async with`.

    Example:
        from ferrule import ChatMessage, ToolCallRequest, load_engine, tool

        @tool
        def get_weather(city: str) -> str:
            "The weather of a city."
            return "sunny"

        request = ToolCallRequest(messages=(ChatMessage.user("How is Paris?"),), tools=(get_weather.definition,))
        async with load_engine("llama:model.gguf") as engine:
            async for event in engine.stream(request):
                print(event)
    """

    traits: Traits

    @abstractmethod
    def stream(self, request: ToolCallRequest) -> AsyncGenerator[Event, None]:
        """Yield the answer's events as they are generated. Call `aclose` on the generator to stop the engine."""

    async def generate_with_tools(self, request: ToolCallRequest) -> Reply:
        """Return the whole answer."""
        folding = ReplyFold()
        async with aclosing(self.stream(request)) as events:
            async for event in events:
                folding.add(event)
        return folding.reply()

    async def count_tokens(self, request: ToolCallRequest) -> int:
        """Count the tokens of the request's prompt with the model's own tokenizer."""
        raise UnsupportedError(
            f"{self.traits.name} does not count tokens", hint="Send the request and read the usage of its answer."
        )

    async def enforcement(self, tool: ToolDefinition) -> Enforcement:
        """Return which schema keywords of a tool would be enforced and which checked, as on a receipt."""
        return no_enforcement(tool)

    def generate(self, request: ToolCallRequest) -> Reply:
        """Return the whole answer, for synchronous programs."""
        return run(self.generate_with_tools(request))

    @abstractmethod
    async def close(self) -> None:
        """Release the engine's resources, such as connections."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
