"""OpenAI's and Anthropic's own clients read what the dialects write, and the dialects read what the clients write."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from dialects.replies import TOOLS, streams, through_json
from ferrule import (
    ChatMessage,
    ChoiceMode,
    Event,
    Finish,
    FinishReason,
    Reply,
    TextDelta,
    ToolCall,
    ToolCallRequest,
    ToolChoice,
    fold,
)
from ferrule.core.json_text import loads
from ferrule.dialects.anthropic import event_encoder as anthropic_events
from ferrule.dialects.anthropic import request_decoder as anthropic_reading
from ferrule.dialects.anthropic import request_encoder as anthropic_request
from ferrule.dialects.anthropic import response_body as anthropic_body
from ferrule.dialects.openai_chat import chunk_encoder as chat_chunks
from ferrule.dialects.openai_chat import request_decoder as chat_reading
from ferrule.dialects.openai_chat import request_encoder as chat_request
from ferrule.dialects.openai_chat import response_body as chat_body
from ferrule.dialects.openai_responses import event_encoder as responses_events
from ferrule.dialects.openai_responses import request_decoder as responses_reading
from ferrule.dialects.openai_responses import request_encoder as responses_request
from ferrule.dialects.openai_responses import response_body as responses_body
from ferrule.errors import EngineError
from lab.workers import Worker, clients

pytestmark = pytest.mark.oracle

REQUEST = ToolCallRequest(
    messages=(
        ChatMessage.system("Be kind."),
        ChatMessage.user("Hello"),
        ChatMessage.assistant("Wait", [ToolCall.of("get", {"key": "x"}, id="c")]),
        ChatMessage.tool("c", "pong", "get"),
    ),
    tools=TOOLS,
    model="m",
    max_tokens=50,
    parallel_tool_calls=False,
    response_schema={"type": "object"},
)
many = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@dataclass(frozen=True, slots=True)
class Api:
    """One API: its encoder, its whole body, what it calls each ending, and both sides of a request."""

    name: str
    encoder: Any
    body: Any
    head: dict[str, Any]
    endings: dict[FinishReason, str]
    request_body: Any
    read_request: Any


HEAD: dict[str, Any] = {"id": "id_1", "model": "m"}
OPENAI_HEAD: dict[str, Any] = {**HEAD, "created": 7}
APIS = [
    Api(
        "chat",
        lambda: chat_chunks.ChunkEncoder(**OPENAI_HEAD, include_usage=True),
        chat_body.body_of,
        OPENAI_HEAD,
        {reason: reason.value for reason in FinishReason},
        chat_request.request_body,
        chat_reading.read_request,
    ),
    Api(
        "response",
        lambda: responses_events.EventEncoder(**OPENAI_HEAD, request=REQUEST),
        responses_body.body_of,
        {**OPENAI_HEAD, "request": REQUEST},
        {reason: "incomplete" if reason is FinishReason.LENGTH else "completed" for reason in FinishReason},
        responses_request.request_body,
        responses_reading.read_request,
    ),
    Api(
        "message",
        lambda: anthropic_events.EventEncoder(**HEAD),
        anthropic_body.body_of,
        HEAD,
        anthropic_body.STOP_REASONS,
        anthropic_request.request_body,
        anthropic_reading.read_request,
    ),
]
each_api = pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with clients() as started:
        yield started


def ask(worker: Worker, op: str, value: Any) -> dict[str, Any]:
    answer = worker.ask({"op": op, "given": value})
    assert answer["error"] is None, answer["error"]
    return answer


def assert_read_as(answer: dict[str, Any], reply: Reply, api: Api) -> None:
    assert answer["text"] == reply.text
    assert answer["finish"] == api.endings[reply.finish_reason]
    assert reply.usage is not None
    assert answer["usage"] == [reply.usage.prompt_tokens, reply.usage.completion_tokens]
    # A client sees a call that was cut off while it was streamed, but cannot read its arguments.
    whole = {call.id for call in reply.calls}
    calls = [(id, name, arguments) for id, name, arguments in answer["calls"] if id in whole]
    assert [(id, name) for id, name, _ in calls] == [(call.id, call.name) for call in reply.calls]
    values = [loads(arguments) if isinstance(arguments, str) else arguments for _, _, arguments in calls]
    assert values == [call.arguments for call in reply.calls]


@each_api
@many
@given(events=streams())
def test_a_client_sums_a_stream_to_the_same_reply(worker: Worker, api: Api, events: list[Event]) -> None:
    encoder = api.encoder()
    chunks = [chunks for event in events for chunks in encoder.feed(event)] + encoder.close()
    assert_read_as(ask(worker, f"{api.name}_stream", chunks), fold(events), api)


@each_api
@many
@given(events=streams())
def test_a_client_reads_a_whole_body_as_the_same_reply(worker: Worker, api: Api, events: list[Event]) -> None:
    reply = fold(events)
    assert_read_as(ask(worker, f"{api.name}_body", api.body(reply, **api.head)), reply, api)


@each_api
@pytest.mark.parametrize(
    "choice", [ToolChoice.auto(), ToolChoice.none(), ToolChoice.required(), ToolChoice.one("ping")], ids=str
)
def test_a_client_takes_a_request_and_what_it_sends_is_read_as_the_same(
    worker: Worker, api: Api, choice: ToolChoice
) -> None:
    request = ToolCallRequest(**{**fields_of(REQUEST), "tool_choice": choice})
    body = api.request_body(request, model="m", stream=False)
    sent_body = ask(worker, f"{api.name}_sent", body)["sent"]
    assert api.read_request(sent_body) == api.read_request(through_json(body))


@pytest.mark.parametrize("mode", [ChoiceMode.AUTO, ChoiceMode.REQUIRED])
@pytest.mark.parametrize("api", APIS[:2], ids=lambda api: api.name)
def test_an_allowed_subset_is_encoded_as_the_client_encodes_it(worker: Worker, api: Api, mode: ChoiceMode) -> None:
    request = ToolCallRequest(**{**fields_of(REQUEST), "tool_choice": ToolChoice.allowed(["ping", "get"], mode)})
    body = api.request_body(request, model="m", stream=False)
    assert api.read_request(ask(worker, f"{api.name}_sent", body)["sent"]) == request


@each_api
def test_a_client_refuses_what_is_not_its_api(worker: Worker, api: Api) -> None:
    encoder = api.encoder()
    chunks = [chunks for event in (TextDelta("Hi"), Finish(FinishReason.STOP)) for chunks in encoder.feed(event)]
    broken = [
        {key: value for key, value in event.items() if key not in ("id", "response", "message")} for event in chunks
    ]
    assert worker.ask({"op": f"{api.name}_stream", "given": broken})["error"]


@pytest.mark.parametrize(
    "api, error_body, raised",
    [(APIS[0], chat_body.error_body, "APIError"), (APIS[2], anthropic_body.error_body, "APIStatusError")],
    ids=["chat", "message"],
)
def test_an_error_in_the_middle_of_a_stream_makes_a_client_raise(
    worker: Worker, api: Api, error_body: Any, raised: str
) -> None:
    chunks = [*api.encoder().feed(TextDelta("Hel")), error_body(EngineError("it broke"))]
    error = worker.ask({"op": f"{api.name}_stream", "given": chunks})["error"]
    assert error.startswith(raised)
    assert "the engine failed" in error
    assert "it broke" not in error, "what an engine says is for the operator"


def fields_of(request: ToolCallRequest) -> dict[str, Any]:
    return {name: getattr(request, name) for name in request.__dataclass_fields__}
