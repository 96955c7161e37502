"""`/v1/messages`: Anthropic's API for the same turns."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from typing import Any

import pytest

from ferrule.core.call import ToolCall
from ferrule.core.reply import Reply
from ferrule.engines.fake import FakeGenerator
from ferrule.engines.generator import ModelFacts
from ferrule.engines.refusal import refusal_of
from ferrule.engines.text.engine import TextEngine, TextOptions
from ferrule.errors import EngineError, EngineUnavailableError
from ferrule.schema.tool_decorator import tool
from ferrule.sources.functions import Functions
from server.client import ClientResponse, gateway_of, scripted_engine
from server.test_router import FailingEngine

USER = [{"role": "user", "content": "What is the weather in Paris?"}]
WEATHER = {"name": "weather", "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}}}
CALL = Reply.of(ToolCall.of("weather", {"city": "Paris"}, id="call_1"))


@tool
def weather(city: str) -> str:
    """The weather in a city."""
    return f"sunny in {city}"


def send_message(body: dict[str, Any], *replies: Reply | str, own: bool = False) -> ClientResponse:
    async def scenario() -> ClientResponse:
        sources = [Functions([weather])] if own else []
        async with gateway_of(scripted_engine(*replies), sources=sources) as client:
            request_body = {"model": "m", "max_tokens": 50, "messages": USER, **body}
            return await client.post("/v1/messages?beta=true", request_body, {"anthropic-version": "2023-06-01"})

    return asyncio.run(scenario())


def test_the_callers_tools_end_the_answer_with_tool_use() -> None:
    body = send_message({"tools": [WEATHER]}, CALL).json()
    assert body["stop_reason"] == "tool_use"
    assert body["content"] == [{"type": "tool_use", "id": "call_1", "name": "weather", "input": {"city": "Paris"}}]


def test_the_gateways_tools_run_inside_one_answer_and_are_reported_in_pings() -> None:
    answer = send_message({"stream": True}, CALL, "It is sunny.", own=True)
    events = answer.events()
    pings = [key for one in events if one["type"] == "ping" for key in one["ferrule"]]
    assert pings == ["tool_call", "tool_started", "tool_finished"]
    assert [one["type"] for one in events if one["type"] != "ping"] == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert events[-2]["delta"]["stop_reason"] == "end_turn"
    named = [line.removeprefix("event: ") for line in answer.body.decode().splitlines() if line.startswith("event: ")]
    assert named == [one["type"] for one in events]


@pytest.mark.parametrize(
    "error, status, kind",
    [(EngineUnavailableError("busy"), 503, "overloaded_error"), (EngineError("x"), 502, "api_error")],
)
def test_an_error_before_the_answer_has_a_status_and_anthropics_shape(error: Any, status: int, kind: str) -> None:
    async def scenario() -> ClientResponse:
        async with gateway_of(FailingEngine(error)) as client:
            return await client.post("/v1/messages", {"max_tokens": 9, "messages": USER, "stream": True})

    answer = asyncio.run(scenario())
    assert (answer.status, answer.json()["error"]["type"]) == (status, kind)
    assert answer.json()["request_id"] == answer.headers["request-id"]


def test_an_error_in_mid_stream_is_an_event_named_error() -> None:
    async def scenario() -> ClientResponse:
        async with gateway_of(FailingEngine(EngineError("broke"), after=2)) as client:
            return await client.post("/v1/messages", {"max_tokens": 9, "messages": USER, "stream": True})

    answer = asyncio.run(scenario())
    assert answer.events()[-1]["error"]["type"] == "overloaded_error"
    assert answer.body.rstrip().splitlines()[-2] == b"event: error"
    assert b"message_stop" not in answer.body


def test_claude_codes_first_question_is_answered_without_a_key_and_tells_nothing() -> None:
    async def scenario() -> ClientResponse:
        async with gateway_of(scripted_engine("Hi")) as client:
            return await client.request("HEAD", "/api/hello")

    answer = asyncio.run(scenario())
    assert (answer.status, answer.body) == (200, b"")


def _answer_of(body: Any, engine: Any) -> ClientResponse:
    async def scenario() -> ClientResponse:
        async with gateway_of(engine) as client:
            return await client.post("/v1/messages", {"model": "m", "max_tokens": 9, **body})

    return asyncio.run(scenario())


def test_a_prompt_that_is_too_long_is_told_in_the_words_by_which_claude_code_compacts() -> None:
    engine = TextEngine(FakeGenerator(["Hi"], replace(ModelFacts(), context=100)), TextOptions(format="hermes"))
    answer = _answer_of({"messages": [{"role": "user", "content": "x" * 200}], "stream": True}, engine)
    error = answer.json()["error"]
    assert (answer.status, error["type"]) == (400, "invalid_request_error")
    assert answer.headers["x-should-retry"] == "false"
    # Claude Code reads both numbers by this pattern, and nothing may follow them.
    found = re.fullmatch(r"prompt is too long: (\d+) tokens > (\d+) maximum", error["message"])
    assert found is not None
    assert int(found[1]) > 200
    assert found[2] == "100"


@pytest.mark.parametrize(
    "upstream, message",
    [
        (
            "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens.",
            "prompt is too long: 5000 tokens > 4096 maximum",
        ),
        (
            "the request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it",
            "prompt is too long: 5000 tokens > 4096 maximum",
        ),
        ("prompt is too long: 210000 tokens > 200000 maximum", "prompt is too long: 210000 tokens > 200000 maximum"),
        ('{"code": "context_length_exceeded"}', "prompt is too long"),
    ],
)
def test_an_engine_that_finds_a_prompt_too_long_is_told_in_the_same_words(upstream: str, message: str) -> None:
    answer = _answer_of({"messages": USER}, FailingEngine(refusal_of("http://engine", 400, upstream)))
    assert (answer.status, answer.json()["error"]["message"]) == (400, message)
