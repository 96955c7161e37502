"""Spans for OpenTelemetry, by its GenAI conventions: `chat {model}` and `execute_tool {tool}`.

The one owner of opentelemetry, and of its API alone: whoever runs the gateway brings an SDK, or nothing happens here.
A span is made when it is over, with both of its times, so that nothing is kept while an answer forms. What people and
models wrote is in none of them, nor are arguments and results.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

_CARRIED = ("traceparent", "tracestate", "baggage")
Value = str | int | float | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Took:
    """When something began and ended, in nanoseconds of Unix time; `error` is the code of what it failed with."""

    began: int
    ended: int
    error: str = ""


@dataclass(frozen=True, slots=True)
class Spans:
    """`tracer` is None where there is no SDK."""

    tracer: Any = None

    @classmethod
    def found(cls) -> Self:
        """With the SDK that this process has configured, if it has."""
        try:
            from opentelemetry import trace
        except ImportError:
            return cls()
        provider = trace.get_tracer_provider()
        if isinstance(provider, trace.ProxyTracerProvider | trace.NoOpTracerProvider):
            return cls()
        return cls.by(provider)

    @classmethod
    def by(cls, provider: Any) -> Self:
        return cls(provider.get_tracer("ferrule.server"))

    @property
    def is_on(self) -> bool:
        return self.tracer is not None

    def parent(self, headers: Mapping[str, str]) -> Any:
        """What the headers of a request say that its spans belong to."""
        if not self.is_on:
            return None
        from opentelemetry.propagate import extract

        return extract({name: headers[name] for name in _CARRIED if name in headers})

    def chat(self, model: str, took: Took, parent: Any, told: Mapping[str, Value]) -> None:
        """One reply of a model. An engine may be in this process; for whoever asks it is a service all the same."""
        named: dict[str, Value] = {"gen_ai.operation.name": "chat", "gen_ai.request.model": model, **told}
        self._ended(f"chat {model}", "CLIENT", took, parent, named)

    def tool(self, name: str, call_id: str, took: Took, parent: Any) -> None:
        """One call that the gateway ran."""
        named: dict[str, Value] = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.id": call_id,
        }
        self._ended(f"execute_tool {name}", "INTERNAL", took, parent, named)

    def _ended(self, name: str, kind: str, took: Took, parent: Any, told: dict[str, Value]) -> None:
        if not self.is_on:
            return
        from opentelemetry.trace import SpanKind, StatusCode

        if took.error:
            told = {**told, "error.type": took.error}
        span = self.tracer.start_span(name, context=parent, kind=SpanKind[kind], attributes=told, start_time=took.began)
        if took.error:
            span.set_status(StatusCode.ERROR)
        span.end(took.ended)
