"""Spans for OpenTelemetry, by its GenAI conventions: `chat {model}` and `execute_tool {tool}`, in one of the request.

The only module that imports opentelemetry, and only its API: without an SDK in the process nothing is recorded. The
span of a request is open while the request is, so that its parts have a parent; every other span is created when it has
ended, with both times. Spans contain no prompts, no answers, no arguments and no results.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

_TRACE_HEADERS = ("traceparent", "tracestate", "baggage")
# W3C Trace Context, version 00. IDs of zeros only are invalid.
_TRACEPARENT = re.compile(r"00-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]([0-9a-f])")
_ERROR_STATUS = 500
AttributeValue = str | int | float | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SpanTiming:
    """Start and end in nanoseconds of Unix time; `error` is the error code, or empty."""

    start: int
    end: int
    error: str = ""


@dataclass(frozen=True, slots=True)
class TraceContext:
    """The trace of a request. `parent` is the context of its spans, and `span` its own span, if there is an SDK."""

    trace_id: str = ""
    is_sampled: bool = False
    parent: Any = None
    span: Any = None

    @property
    def exemplar_id(self) -> str:
        """The trace's ID if somebody records the trace, so that a metric may point to it."""
        return self.trace_id if self.is_sampled else ""

    def end(self, status: int, error: str) -> None:
        """End the span of the request. `error` is the error code, or empty."""
        if self.span is None:
            return
        from opentelemetry.trace import StatusCode

        self.span.set_attribute("http.response.status_code", status)
        if error:
            self.span.set_attribute("error.type", error)
        # By the HTTP conventions a server's span has failed only if the server was at fault.
        if status >= _ERROR_STATUS or (error and not status):
            self.span.set_status(StatusCode.ERROR)
        self.span.end()


NO_TRACE = TraceContext()


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

    def begin_request(self, headers: Mapping[str, str], method: str, route: str) -> TraceContext:
        """Begin the span of a request, in the trace that its headers name. An empty `route` begins none.

        If an instrumentation of the server has begun one, that is the parent, and no second one begins. Without an SDK
        only the ID of the client's trace is known.
        """
        if not self.is_on:
            match = _TRACEPARENT.fullmatch(headers.get("traceparent", ""))
            return TraceContext(match[1], bool(int(match[2], 16) & 1)) if match else NO_TRACE
        from opentelemetry import context, trace
        from opentelemetry.propagate import extract

        span, parent = None, context.get_current()
        if not trace.get_current_span(parent).get_span_context().is_valid:
            parent = extract({name: headers[name] for name in _TRACE_HEADERS if name in headers})
            if route:
                attributes = {"http.request.method": method, "http.route": route}
                span = self.tracer.start_span(
                    f"{method} {route}", context=parent, kind=trace.SpanKind.SERVER, attributes=attributes
                )
                parent = trace.set_span_in_context(span, parent)
        ids = trace.get_current_span(parent).get_span_context()
        trace_id = trace.format_trace_id(ids.trace_id) if ids.is_valid else ""
        return TraceContext(trace_id, ids.trace_flags.sampled, parent, span)

    def record_chat(self, model: str, timing: SpanTiming, parent: Any, extra: Mapping[str, AttributeValue]) -> None:
        """Record one reply of a model. The kind is CLIENT even if the engine runs in this process."""
        attributes: dict[str, AttributeValue] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": model,
            **extra,
        }
        self._record(f"chat {model}", "CLIENT", timing, parent, attributes)

    def record_tool(
        self, name: str, call_id: str, timing: SpanTiming, parent: Any, extra: Mapping[str, AttributeValue]
    ) -> None:
        """Record one tool call that the gateway ran."""
        attributes: dict[str, AttributeValue] = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.id": call_id,
            **extra,
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
