"""Router: engines behind model names. An engine that fails before it has said anything is stood in for by another.

Once anything was handed on, nobody else can go on with it: the error goes to the client, who may ask again.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Protocol

from ferrule.core.event import SHOWN, Event
from ferrule.core.request import ToolCallRequest
from ferrule.engines.engine import Engine, Traits
from ferrule.errors import EngineError, EngineUnavailableError, NotFoundError, UnsupportedError
from ferrule.server.observability.tool_usage import CHOOSING

_FIRST_REST = 1.0
_LONGEST_REST = 60.0


@dataclass(slots=True)
class Health:
    """How it stands with one engine: after a failure it rests, longer after each, and is then tried again."""

    clock: Callable[[], float] = time.monotonic
    failures: int = 0
    rests_until: float = 0.0
    last_error: str = ""

    @property
    def is_well(self) -> bool:
        return self.clock() >= self.rests_until

    def failed(self, error: EngineError) -> None:
        self.last_error = error.message
        if not self.is_well:
            # What was under way when it fell fails with it: that is one failure and not many.
            return
        self.failures += 1
        self.rests_until = self.clock() + min(_FIRST_REST * 2.0 ** (self.failures - 1), _LONGEST_REST)

    def answered(self) -> None:
        self.failures, self.rests_until, self.last_error = 0, 0.0, ""


@dataclass(slots=True)
class Replica:
    """One engine of a model."""

    name: str
    engine: Engine
    health: Health = field(default_factory=Health)
    under_way: int = 0


class Heard(Protocol):
    """Is told of every failure of an engine, and whether another one stands in for it."""

    def __call__(self, model: str, engine: str, error: EngineError, *, is_stood_in_for: bool) -> None: ...


class Replied(Protocol):
    """Is told of every whole answer to a request that offers tools: the events that say what was chosen."""

    def __call__(self, model: str, request: ToolCallRequest, events: Iterable[Event]) -> None: ...


def _unnoticed(model: str, request: ToolCallRequest, events: Iterable[Event]) -> None:
    """Nobody counts."""


def _unheard(model: str, engine: str, error: EngineError, *, is_stood_in_for: bool) -> None:
    """Nobody listens."""


class RoutedEngine(Engine):
    """Several engines as one. `balanced` asks the one with the least to do; otherwise the first that is well."""

    def __init__(self, model: str, replicas: Iterable[Replica], *, balanced: bool = False) -> None:
        self.model = model
        self.replicas = tuple(replicas)
        self.heard: Heard = _unheard
        self.replied: Replied = _unnoticed
        self._balanced = balanced

    @property
    def traits(self) -> Traits:  # pyright: ignore[reportIncompatibleVariableOverride]  # of whichever is asked first
        return self._order()[0].engine.traits

    async def stream(self, request: ToolCallRequest) -> AsyncGenerator[Event, None]:
        refusal: EngineError | None = None
        order = self._order()
        chosen: list[Event] = []
        for replica in order:
            has_spoken = False
            replica.under_way += 1
            try:
                async with aclosing(replica.engine.stream(request)) as events:
                    async for event in events:
                        has_spoken = has_spoken or event.__class__ not in SHOWN
                        if event.__class__ in CHOOSING:
                            chosen.append(event)
                        yield event
                replica.health.answered()
                if request.tools:
                    self.replied(self.model, request, chosen)
                return
            except UnsupportedError:
                # The request's fault and not the engine's, and the same everywhere.
                raise
            except EngineError as error:
                replica.health.failed(error)
                is_stood_in_for = not has_spoken and replica is not order[-1]
                self.heard(self.model, replica.name, error, is_stood_in_for=is_stood_in_for)
                if has_spoken:
                    raise _broken(error) from error
                refusal = error
            finally:
                replica.under_way -= 1
        raise refusal or EngineUnavailableError(f"{self.model} has no engine")

    async def count_tokens(self, request: ToolCallRequest) -> int:
        return await self._order()[0].engine.count_tokens(request)

    async def close(self) -> None:
        """Engines may stand behind several models: whoever made them closes them."""

    def _order(self) -> list[Replica]:
        ways = [
            (not one.health.is_well, one.under_way if self._balanced else 0, at) for at, one in enumerate(self.replicas)
        ]
        return [self.replicas[way[2]] for way in sorted(ways)]


def _broken(error: EngineError) -> EngineError:
    """What a client is told in the middle of an answer: that asking again is safe, since no call was handed on."""
    if error.retryable:
        return error
    return EngineUnavailableError(error.message, code="broken_off", hint="Ask again: nothing was done.")


@dataclass(slots=True)
class Router:
    """Models by name. A single model also answers to any name, so that a client needs no configuration."""

    models: Mapping[str, RoutedEngine]
    accepts_any_name: bool = False

    def engine(self, model: str | None) -> RoutedEngine:
        if model is not None and model in self.models:
            return self.models[model]
        if self.models and (not model or self.accepts_any_name):
            return next(iter(self.models.values()))
        known = ", ".join(self.models) or "none"
        raise NotFoundError(f"there is no model {model!r:.80}", code="model_not_found", hint=f"There are: {known}.")

    @property
    def replicas(self) -> tuple[Replica, ...]:
        """Each engine once."""
        found = {id(one.engine): one for model in self.models.values() for one in model.replicas}
        return tuple(found.values())

    async def close(self) -> None:
        for replica in self.replicas:
            await replica.engine.close()
