"""Spans for OpenTelemetry, by its GenAI conventions: `chat {model}` and `execute_tool {tool}`.

The only module that imports opentelemetry, and only its API: without an SDK in the process nothing is recorded. A span
is created when it has ended, with both times, so that nothing is kept during an answer. Spans contain no prompts, no
answers, no arguments and no results.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

_TRACE_HEADERS = ("traceparent", "tracestate", "baggage")
AttributeValue = str | int | float | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SpanTiming:
    """Start and end in nanoseconds of Unix time; `error` is the error code, or empty."""

    start: int
    end: int
    error: str = ""


@dataclass(frozen=True, slots=True)
class Spans:
    """Records spans. `tracer` is None if there is no SDK."""

    tracer: Any = None

    @classmethod
    def from_environment(cls) -> Self:
        """Use the SDK that this process has configured, if any."""
        try:
            from opentelemetry import trace
        except ImportError:
            return cls()
        provider = trace.get_tracer_provider()
        if isinstance(provider, trace.ProxyTracerProvider | trace.NoOpTracerProvider):
            return cls()
        return cls.from_provider(provider)

    @classmethod
    def from_provider(cls, provider: Any) -> Self:
        return cls(provider.get_tracer("ferrule.server"))

    @property
    def is_on(self) -> bool:
        return self.tracer is not None

    def parent(self, headers: Mapping[str, str]) -> Any:
        """The trace context in the headers of a request."""
        if not self.is_on:
            return None
        from opentelemetry.propagate import extract

        return extract({name: headers[name] for name in _TRACE_HEADERS if name in headers})

    def record_chat(self, model: str, timing: SpanTiming, parent: Any, extra: Mapping[str, AttributeValue]) -> None:
        """Record one reply of a model. The kind is CLIENT even if the engine runs in this process."""
        attributes: dict[str, AttributeValue] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": model,
            **extra,
        }
        self._record(f"chat {model}", "CLIENT", timing, parent, attributes)

    def record_tool(self, name: str, call_id: str, timing: SpanTiming, parent: Any) -> None:
        """Record one tool call that the gateway ran."""
        attributes: dict[str, AttributeValue] = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.id": call_id,
        }
        self._record(f"execute_tool {name}", "INTERNAL", timing, parent, attributes)

    def _record(
        self, name: str, kind: str, timing: SpanTiming, parent: Any, attributes: dict[str, AttributeValue]
    ) -> None:
        if not self.is_on:
            return
        from opentelemetry.trace import SpanKind, StatusCode

        if timing.error:
            attributes = {**attributes, "error.type": timing.error}
        span = self.tracer.start_span(
            name, context=parent, kind=SpanKind[kind], attributes=attributes, start_time=timing.start
        )
        if timing.error:
            span.set_status(StatusCode.ERROR)
        span.end(timing.end)
