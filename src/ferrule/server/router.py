"""Router: maps model names to engines and fails over between them.

If an engine fails before it has produced any output, the next engine of the model takes the request. After the first
output another engine cannot continue the answer, so the error goes to the client, which may retry.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Protocol, cast

from ferrule.core.event import DEBUG_EVENTS, Diagnostic, Event, Finish
from ferrule.core.forward import ForwardApi, ForwardedPart, ForwardRequest
from ferrule.core.history import readable_request
from ferrule.core.request import ToolCallRequest
from ferrule.engines.engine import Engine, Traits, no_such_api
from ferrule.errors import (
    EngineAccessError,
    EngineError,
    EngineModelError,
    EngineRequestError,
    EngineUnavailableError,
    NotFoundError,
    NoValidCallError,
    UnsupportedError,
)

_LONG_ARGUMENTS = 65_536
"""Up to so many characters, parsing takes less time than handing them to a thread."""
_MIN_RETRY_SECONDS = 1.0
_MAX_RETRY_SECONDS = 60.0
_SUSPECT_REQUESTS = 3
# Whatever the request is, the engine fails it: nothing listens, it is overloaded, or its configuration is wrong.
_ENGINE_FAULTS = (EngineUnavailableError, EngineAccessError, EngineModelError)
BROKEN_ANSWERS = frozenset({"engine_error", "broken_off"})
"""The diagnostics of an answer that the engine broke off, with what it said."""


AnyRequest = ToolCallRequest | ForwardRequest


@dataclass(slots=True)
class Health:
    """The health of one engine. After it failed it is avoided for a while, with exponential backoff.

    Not every failure is the engine's: a prompt can make an engine answer 500, time out or break off, each time it is
    sent and on every replica, while all other requests are served. So a failure counts at once only if its kind shows
    that the engine fails whatever it is asked (`_ENGINE_FAULTS`). Any other counts when so many *different* requests
    have failed in a row, without a success in between: one that is retried is still one. A request that an engine
    rejects (`EngineRequestError`) never counts.
    """

    clock: Callable[[], float] = time.monotonic
    failures: int = 0
    retry_at: float = 0.0
    last_error: str = ""
    _suspects: set[int] = field(default_factory=set[int])
    """The different requests that failed since the last success, by hash; at most `_SUSPECT_REQUESTS`."""

    @property
    def is_healthy(self) -> bool:
        return self.clock() >= self.retry_at

    def record_failure(self, error: EngineError, request: AnyRequest | None = None) -> None:
        self.last_error = error.message
        if isinstance(error, EngineRequestError) or not (
            isinstance(error, _ENGINE_FAULTS) or self._are_many_different(request)
        ):
            return
        if not self.is_healthy:
            # Requests in flight fail together with the engine: they count as one failure.
            return
        self.failures += 1
        backoff = min(_MIN_RETRY_SECONDS * 2.0 ** (self.failures - 1), _MAX_RETRY_SECONDS)
        self.retry_at = self.clock() + max(backoff, min(error.retry_after or 0.0, _MAX_RETRY_SECONDS))

    def record_success(self) -> None:
        self.failures, self.retry_at, self.last_error = 0, 0.0, ""
        self._suspects.clear()

    def _are_many_different(self, request: AnyRequest | None) -> bool:
        if len(self._suspects) < _SUSPECT_REQUESTS:
            content = request.fields if isinstance(request, ForwardRequest) else request and request.messages
            self._suspects.add(hash(repr(content)))
        return len(self._suspects) >= _SUSPECT_REQUESTS


@dataclass(slots=True)
class Replica:
    """One engine of a model."""

    name: str
    engine: Engine
    health: Health = field(default_factory=Health)
    in_flight: int = 0


class FailureListener(Protocol):
    """Called for each failure of an engine. `is_failover`: another engine takes the request."""

    def __call__(self, model: str, engine: str, error: EngineError, *, is_failover: bool) -> None: ...


def _ignore_failure(model: str, engine: str, error: EngineError, *, is_failover: bool) -> None:
    """The default: no listener."""


class RoutedEngine(Engine):
    """Several engines as one. Uses the first healthy engine, or with `balanced` the one with the fewest requests."""

    def __init__(self, model: str, replicas: Iterable[Replica], *, balanced: bool = False) -> None:
        self.model = model
        self.replicas = tuple(replicas)
        self.on_failure: FailureListener = _ignore_failure
        self.on_finish: Callable[[str, Finish], None] = lambda engine, finish: None
        """Called with the name of the engine and the end of each reply."""
        self._balanced = balanced

    @property
    def traits(self) -> Traits:  # pyright: ignore[reportIncompatibleVariableOverride]  # those of the engine that is used first
        engines = [replica.engine for replica in self._preference_order()]
        traits = engines[0].traits
        if traits.tool_search and not all(engine.traits.tool_search for engine in engines):
            # Another engine may answer, and would offer what is deferred.
            return replace(traits, tool_search=False)
        return traits

    async def stream_request(self, request: ToolCallRequest) -> AsyncGenerator[Event, None]:
        """Repairs are reported before the end of the reply: until there is output, an error has an HTTP status."""
        request, repairs = await _readable(request)
        rejection: EngineError | None = None
        last_error: EngineError | None = None
        order = self._preference_order()
        for replica in order:
            has_output = is_broken = False
            replica.in_flight += 1
            try:
                async with aclosing(replica.engine.stream_request(request)) as events:
                    async for event in events:
                        # Diagnostic events (`SHOWN`) are not output: failover is still possible after them.
                        has_output = has_output or event.__class__ not in DEBUG_EVENTS
                        if event.__class__ is Finish:
                            self.on_finish(replica.name, cast("Finish", event))
                            for repair in repairs:
                                yield repair
                        if isinstance(event, Diagnostic) and event.code in BROKEN_ANSWERS:
                            is_broken = True
                            yield self._report_broken_answer(replica, request, event)
                            continue
                        yield event
                if not is_broken:
                    replica.health.record_success()
                return
            except (UnsupportedError, NoValidCallError):
                # The request or the model is at fault and not the engine: another engine would answer alike.
                raise
            except EngineError as error:
                replica.health.record_failure(error, request)
                is_failover = not has_output and replica is not order[-1]
                self.on_failure(self.model, replica.name, error, is_failover=is_failover)
                if has_output:
                    raise _interruption_error(error) from error
                last_error = error
                if rejection is None and isinstance(error, EngineRequestError):
                    rejection = error
            finally:
                replica.in_flight -= 1
        # A client can act on a rejection. The failure of another engine would make it send the same again.
        raise rejection or last_error or EngineUnavailableError(f"the model {self.model} has no engine")

    @property
    def forwarded_apis(self) -> frozenset[ForwardApi]:
        """The APIs that an engine of this model may have besides those for conversations."""
        forwarders = [one.engine.forwarder for one in self.replicas]
        return frozenset[ForwardApi]().union(*(one.apis for one in forwarders if one is not None))

    async def forward(self, request: ForwardRequest) -> AsyncGenerator[ForwardedPart, None]:
        """Forward a request, and to the next engine if one fails before any output."""
        last_error: EngineError | None = None
        order = self._preference_order()
        for replica in order:
            has_output = False
            replica.in_flight += 1
            try:
                async with aclosing(replica.engine.forward(request)) as parts:
                    async for part in parts:
                        has_output = True
                        if part.finish is not None:
                            self.on_finish(replica.name, part.finish)
                        yield part
                replica.health.record_success()
                return
            except UnsupportedError as error:
                # Another engine of the model may have the API.
                last_error = last_error or error
            except EngineError as error:
                replica.health.record_failure(error, request)
                is_failover = not has_output and replica is not order[-1]
                self.on_failure(self.model, replica.name, error, is_failover=is_failover)
                if has_output:
                    raise _interruption_error(error) from error
                is_refusal = isinstance(last_error, EngineRequestError)
                last_error = last_error if is_refusal else error
            finally:
                replica.in_flight -= 1
        raise last_error or no_such_api(f"the model {self.model} has no engine")

    async def count_tokens(self, request: ToolCallRequest) -> int:
        replica = self._preference_order()[0]
        try:
            return await replica.engine.count_tokens((await _readable(request))[0])
        except UnsupportedError:
            raise
        except EngineError as error:
            self.on_failure(self.model, replica.name, error, is_failover=False)
            raise

    def _report_broken_answer(self, replica: Replica, request: ToolCallRequest, event: Diagnostic) -> Diagnostic:
        """Report what the engine said, and return the event for the caller, which does not contain it."""
        error = EngineError(event.message, code=event.code)
        replica.health.record_failure(error, request)
        self.on_failure(self.model, replica.name, error, is_failover=False)
        return replace(event, message="the engine broke the answer off", text="")

    async def close(self) -> None:
        """Does nothing: an engine may serve several models, so `Router.close` closes each engine once."""

    def _preference_order(self) -> list[Replica]:
        ranks = [
            (not one.health.is_healthy, one.in_flight if self._balanced else 0, index)
            for index, one in enumerate(self.replicas)
        ]
        return [self.replicas[rank[2]] for rank in sorted(ranks)]


async def _readable(request: ToolCallRequest) -> tuple[ToolCallRequest, tuple[Diagnostic, ...]]:
    """Repair what no engine could read, which clients resend. Long arguments are parsed off the event loop."""
    length = sum(len(call.function.arguments) for message in request.messages for call in message.tool_calls)
    return await asyncio.to_thread(readable_request, request) if length > _LONG_ARGUMENTS else readable_request(request)


def _interruption_error(error: EngineError) -> EngineError:
    """The error for an answer that broke off. A retry is safe because no tool call was passed on."""
    if error.retryable:
        return error
    return EngineUnavailableError(
        error.message,
        code="broken_off",
        hint="Retry: no tool was called.",
        upstream_status=error.upstream_status,
        upstream_body=error.upstream_body,
    )


@dataclass(slots=True)
class Router:
    """Models by name. A gateway with a single model may accept any name, so that clients need no configuration."""

    models: Mapping[str, RoutedEngine]
    accepts_any_name: bool = False

    def engine(self, model: str | None) -> RoutedEngine:
        if model is not None and model in self.models:
            return self.models[model]
        if self.models and (not model or self.accepts_any_name):
            return next(iter(self.models.values()))
        names = ", ".join(self.models) or "none"
        error = NotFoundError(f"there is no model {model!r:.80}", code="model_not_found", hint=f"There are: {names}.")
        error.param = "model"
        raise error

    @property
    def replicas(self) -> tuple[Replica, ...]:
        """All engines, each once."""
        unique = {id(one.engine): one for model in self.models.values() for one in model.replicas}
        return tuple(unique.values())

    async def close(self) -> None:
        for replica in self.replicas:
            await replica.engine.close()
