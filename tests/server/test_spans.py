"""Spans by the GenAI conventions, collected in memory by a real SDK."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from ferrule.core.call import ToolCall
from ferrule.core.event import FinishReason, Usage
from ferrule.core.reply import Reply
from ferrule.engines.engine import Engine
from ferrule.errors import EngineUnavailableError
from ferrule.schema.tool_decorator import tool
from ferrule.server.observability.spans import Spans
from ferrule.sources.functions import Functions
from server.client import gateway_of, scripted_engine
from server.test_router import FailingEngine
from server.watched import BODIES, CHAT, MESSAGES

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SECRET = "words of a person"


@tool
def weather(city: str) -> str:
    """The weather in a city."""
    return f"sunny in {city}"


@tool
def fail(city: str) -> str:
    """Always fails."""
    raise RuntimeError(city)


def spans_of(
    *engines: Engine, path: str = CHAT, headers: dict[str, str] | None = None, **more: Any
) -> tuple[ReadableSpan, ...]:
    """The spans of the parts of a request."""
    return all_spans_of(*engines, path=path, headers=headers, **more)[:-1]


def all_spans_of(
    *engines: Engine, path: str = CHAT, headers: dict[str, str] | None = None, **more: Any
) -> tuple[ReadableSpan, ...]:
    """The spans of a request, its own last."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))

    async def scenario() -> None:
        sources = [Functions([weather, fail])] if more.pop("own", False) else []
        async with gateway_of(*engines, sources=sources) as client:
            client.gateway.telemetry.spans = Spans.from_provider(provider)
            await client.post(path, {**BODIES[path], **more}, headers)

    asyncio.run(scenario())
    return exporter.get_finished_spans()


def attributes_of(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


@pytest.mark.parametrize("path", [CHAT, MESSAGES])
@pytest.mark.parametrize("stream", [False, True])
def test_a_reply_is_a_span_with_genai_attributes(path: str, stream: bool) -> None:
    reply = Reply(Reply.of(SECRET).parts, finish=FinishReason.STOP, usage=Usage(7, 5))
    span, request = all_spans_of(scripted_engine(reply), path=path, stream=stream)
    assert (span.name, span.kind) == ("chat e0", SpanKind.CLIENT)
    assert span.parent == request.context
    attributes = attributes_of(span)
    attributes.pop("gen_ai.conversation.id")
    assert attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "fake",
        "gen_ai.request.model": "e0",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 7,
        "gen_ai.usage.output_tokens": 5,
    }
    assert span.start_time is not None
    assert span.end_time is not None
    assert span.start_time <= span.end_time


def test_spans_join_the_trace_of_the_client() -> None:
    span, request = all_spans_of(scripted_engine("Hello."), headers={"traceparent": f"00-{TRACE}-{PARENT}-01"})
    assert request.parent is not None
    assert (f"{request.parent.trace_id:032x}", f"{request.parent.span_id:016x}") == (TRACE, PARENT)
    assert span.context is not None
    assert f"{span.context.trace_id:032x}" == TRACE


def test_a_request_is_a_span_by_its_route_with_its_status() -> None:
    *_, request = all_spans_of(scripted_engine("Hello."))
    assert (request.name, request.kind, request.parent) == ("POST /v1/chat/completions", SpanKind.SERVER, None)
    assert attributes_of(request) == {
        "http.request.method": "POST",
        "http.route": "/v1/chat/completions",
        "http.response.status_code": 200,
    }


def test_a_request_of_an_unavailable_engine_is_a_failed_span_and_a_refused_one_is_not() -> None:
    *_, failed = all_spans_of(FailingEngine(EngineUnavailableError(SECRET, code=SECRET)))
    assert failed.status.status_code is StatusCode.ERROR
    assert attributes_of(failed)["error.type"] == "engine_unavailable"
    (refused,) = all_spans_of(scripted_engine(), messages="no list")
    assert refused.status.status_code is StatusCode.UNSET
    assert attributes_of(refused)["http.response.status_code"] == 400


def test_an_instrumented_server_has_one_span_for_a_request() -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))

    async def scenario() -> None:
        async with gateway_of(scripted_engine("Hello.")) as client:
            client.gateway.telemetry.spans = Spans.from_provider(provider)
            with provider.get_tracer("instrumentation").start_as_current_span("the server's"):
                await client.post(CHAT, BODIES[CHAT])

    asyncio.run(scenario())
    chat, server = exporter.get_finished_spans()
    assert (chat.name, server.name) == ("chat e0", "the server's")
    assert chat.parent == server.context


@pytest.mark.parametrize("damaged", ["", "00-zz", f"00-{'0' * 32}-{PARENT}-01", "\x00" * 60, "9" * 10_000])
def test_an_invalid_traceparent_starts_a_new_trace(damaged: str) -> None:
    _, request = all_spans_of(scripted_engine("Hello."), headers={"traceparent": damaged})
    assert request.parent is None


def test_a_loop_is_a_span_for_each_reply_and_one_for_each_tool_in_order() -> None:
    call = Reply.of(ToolCall.of("weather", {"city": SECRET}, id="call_1"))
    spans = spans_of(scripted_engine(call, "Sunny."), own=True)
    assert [span.name for span in spans] == ["chat e0", "execute_tool weather", "chat e0"]
    first, tool_span, last = spans
    assert tool_span.kind is SpanKind.INTERNAL
    assert attributes_of(tool_span) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "weather",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": "call_1",
    }
    conversations = {attributes_of(span)["gen_ai.conversation.id"] for span in (first, last)}
    assert len(conversations) == 1
    assert first.end_time is not None
    assert last.start_time is not None
    assert first.end_time <= last.start_time


def test_failures_have_an_error_type() -> None:
    call = Reply.of(ToolCall.of("fail", {"city": "Paris"}, id="call_1"))
    _, tool_span, _ = spans_of(scripted_engine(call, "Sorry."), own=True)
    (chat,) = spans_of(FailingEngine(EngineUnavailableError(SECRET, code=SECRET)))
    assert attributes_of(tool_span)["error.type"] == "tool_error"
    assert attributes_of(chat)["error.type"] == "engine_unavailable"
    assert {span.status.status_code for span in (tool_span, chat)} == {StatusCode.ERROR}


def test_no_attribute_holds_user_or_model_text() -> None:
    call = Reply.of(ToolCall.of("weather", {"city": SECRET}, id="call_1"))
    body = {"messages": [{"role": "user", "content": SECRET}], "model": SECRET}
    spans = spans_of(scripted_engine(call, SECRET), own=True, **body)
    assert len(spans) == 3
    assert SECRET not in "".join(span.to_json() for span in spans)


def test_a_callers_tool_creates_no_span() -> None:
    call = Reply.of(ToolCall.of("launch", {}, id="call_1"))
    spans = spans_of(scripted_engine(call), tools=[{"type": "function", "function": {"name": "launch"}}])
    assert [span.name for span in spans] == ["chat e0"]


def test_without_an_sdk_there_are_no_spans() -> None:
    assert isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)
    spans = Spans.from_environment()
    assert not spans.is_on
    trace_context = spans.begin_request({"traceparent": f"00-{TRACE}-{PARENT}-01"}, "POST", CHAT)
    assert (trace_context.parent, trace_context.span) == (None, None)
    assert (trace_context.trace_id, trace_context.exemplar_id) == (TRACE, TRACE)


@pytest.mark.parametrize(
    "damaged", ["", f"00-{'0' * 32}-{PARENT}-01", f"00-{TRACE}-{'0' * 16}-01", f"00-{TRACE.upper()}-{PARENT}-01", "\n"]
)
def test_only_a_valid_trace_id_of_a_client_is_taken(damaged: str) -> None:
    assert Spans().begin_request({"traceparent": damaged}, "POST", CHAT).trace_id == ""


def test_a_trace_that_nobody_records_is_no_exemplar() -> None:
    trace_context = Spans().begin_request({"traceparent": f"00-{TRACE}-{PARENT}-00"}, "POST", CHAT)
    assert (trace_context.trace_id, trace_context.exemplar_id) == (TRACE, "")


def test_an_sdk_that_the_process_has_configured_is_found() -> None:
    """In a subprocess, because a provider can be set only once."""
    code = (
        "from opentelemetry import trace; from opentelemetry.sdk.trace import TracerProvider;"
        "from ferrule.server.observability.spans import Spans;"
        "trace.set_tracer_provider(TracerProvider()); print(Spans.from_environment().is_on)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "True"
