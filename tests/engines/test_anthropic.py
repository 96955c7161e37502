"""Anthropic's API as an engine: named events, blocks, and two versions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from engines.providers import (
    QUICK,
    CannedResponse,
    ReceivedRequest,
    generate,
    json_response,
    provider,
    sse,
    stream_events,
)
from engines.tools import TAGS, WEATHER, make_request
from ferrule import DefinitionError, FinishReason, ReasoningDelta, TextDelta, ToolChoice, Usage
from ferrule.core.call import How
from ferrule.dialects.anthropic.passthrough import BETA
from ferrule.dialects.anthropic.request_decoder import read_request
from ferrule.engines.anthropic import anthropic
from ferrule.engines.chat.engine import ChatEngine
from ferrule.errors import EngineError, UnsupportedError

GOOD = '{"city": "Paris"}'


def engine_factory(**settings: Any) -> Callable[[str], ChatEngine]:
    return lambda url: anthropic("m", url=url, deadlines=QUICK, **settings)


def tool_use_response(*pieces: str, reason: str = "tool_use", last: tuple[dict[str, Any], ...] = ()) -> CannedResponse:
    block = {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {}}
    deltas = [_delta(0, {"type": "input_json_delta", "partial_json": piece}) for piece in pieces]
    message_delta = {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 7}}
    return sse(
        {"type": "message_start", "message": {"usage": {"input_tokens": 20}}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        *deltas,
        *(last or ({"type": "content_block_stop", "index": 0}, message_delta, {"type": "message_stop"})),
        is_named=True,
    )


def _delta(index: int, delta: dict[str, Any]) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": delta}


def repair_response(arguments: object) -> CannedResponse:
    block = {"type": "tool_use", "id": "other", "name": "get_weather", "input": arguments}
    usage = {"input_tokens": 30, "output_tokens": 3}
    return json_response({"type": "message", "content": [block], "stop_reason": "tool_use", "usage": usage})


def test_the_request_carries_the_version_and_the_key() -> None:
    reply, requests = generate(
        engine_factory(key="secret"),
        [tool_use_response('{"city": ', '"Paris"}')],
        replace(make_request(), temperature=0.5),
    )
    request_sent = requests[0]
    assert request_sent.path == "/v1/messages"
    assert (request_sent.headers["anthropic-version"], request_sent.headers["x-api-key"]) == ("2023-06-01", "secret")
    assert (request_sent.body["max_tokens"], request_sent.body["temperature"], request_sent.body["stream"]) == (
        512,
        0.5,
        True,
    )
    assert (reply.calls[0].id, reply.calls[0].function.arguments) == ("toolu_1", GOOD)
    assert (reply.finish, reply.usage) == (FinishReason.TOOL_CALLS, Usage(20, 7))


def test_the_newer_version_takes_the_key_elsewhere_and_no_sampling() -> None:
    request = replace(make_request(), temperature=0.5, seed=1)
    reply, requests = generate(engine_factory(key="secret", version="2026-10-21"), [tool_use_response(GOOD)], request)
    assert requests[0].headers["Authorization"] == "Bearer secret"
    assert "temperature" not in requests[0].body
    assert "seed, temperature" in reply.diagnostics[0].message


def test_a_call_that_does_not_fit_is_repaired_with_its_tool_demanded_by_name() -> None:
    reply, requests = generate(
        engine_factory(),
        [tool_use_response('{"city": 5}'), repair_response({"city": "Paris"})],
        make_request(tools=(WEATHER, TAGS)),
    )
    receipt = reply.calls[0].receipt
    assert receipt is not None
    assert (receipt.how, receipt.path, reply.calls[0].id) == (How.REPAIRED, "messages", "toolu_1")
    body = requests[1].body
    assert body["tool_choice"] == {"type": "tool", "name": "get_weather", "disable_parallel_tool_use": True}
    attempt, result = body["messages"][-2:]
    assert attempt["content"] == [{"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"city": 5}}]
    assert result["content"][0]["is_error"] is True
    assert "/city" in result["content"][0]["content"]


@pytest.mark.parametrize("arguments", ['{"city": "Par', "[1]", ""])
def test_arguments_that_are_no_object_are_never_sent_as_one(arguments: str) -> None:
    reply, requests = generate(
        engine_factory(), [tool_use_response(arguments), repair_response({"city": "Paris"})], make_request()
    )
    assert reply.calls[0].function.arguments == GOOD
    kinds = [block["type"] for request_sent in requests[1].body["messages"][1:-1] for block in request_sent["content"]]
    assert kinds == ["text"]


def test_a_subset_is_expressed_by_offering_only_it() -> None:
    request = make_request(tools=(WEATHER, TAGS), choice=ToolChoice.allowed(["get_weather"]))
    reply, requests = generate(engine_factory(), [tool_use_response(GOOD)], request)
    assert [tool["name"] for tool in requests[0].body["tools"]] == ["get_weather"]
    receipt = reply.calls[0].receipt
    assert receipt is not None
    assert "only the allowed tools were offered" in receipt.notes[0]


def test_text_and_thinking_stream() -> None:
    answer = sse(
        {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}},
        _delta(0, {"type": "thinking_delta", "thinking": "Hm."}),
        {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
        _delta(1, {"type": "text_delta", "text": "It is "}),
        _delta(1, {"type": "text_delta", "text": "sunny."}),
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        is_named=True,
    )
    events = stream_events(engine_factory(), [answer], make_request())
    assert events[:3] == [ReasoningDelta("Hm."), TextDelta("It is "), TextDelta("sunny.")]


def test_an_error_in_the_middle_of_a_call_refuses_the_call() -> None:
    error_events = ({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},)
    reply, requests = generate(engine_factory(), [tool_use_response('{"city": "Pa', last=error_events)], make_request())
    assert (reply.calls, reply.finish, len(requests)) == ((), FinishReason.LENGTH, 1)
    assert [diagnostic.code for diagnostic in reply.diagnostics] == ["invalid_arguments", "engine_error"]


def test_an_error_before_anything_else_raises() -> None:
    error_events = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    with pytest.raises(EngineError, match="Overloaded"):
        generate(engine_factory(), [sse(error_events, is_named=True)], make_request())


def test_anthropic_itself_needs_a_key_and_another_server_is_not_sent_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    with pytest.raises(UnsupportedError, match="key"):
        anthropic("m")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "secret")
    assert anthropic("m").api.headers["x-api-key"] == "secret"
    assert "x-api-key" not in anthropic("m", url="http://127.0.0.1:1").api.headers


def test_an_unknown_version_is_refused() -> None:
    with pytest.raises(DefinitionError, match="2020"):
        anthropic("m", key="k", version="2020-01-01")


def test_a_clients_own_body_goes_on_with_the_betas_that_it_needs() -> None:
    tools = [
        {"name": "get_weather", "input_schema": WEATHER.parameters, "eager_input_streaming": True},
        {"name": "later", "input_schema": {"type": "object"}, "defer_loading": True},
    ]
    thought = [{"type": "thinking", "thinking": "So.", "signature": "c2ln"}, {"type": "text", "text": "Hi"}]
    messages = [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": thought},
        {"role": "user", "content": [{"type": "text", "text": "Paris?", "cache_control": {"type": "ephemeral"}}]},
    ]
    body = {"model": "x", "max_tokens": 9, "messages": messages, "tools": tools, "thinking": {"type": "adaptive"}}
    request = read_request(body)
    assert request.client_body is not None
    request = replace(request, client_body=replace(request.client_body, headers={BETA: "a,b"}))
    reply, (sent,) = generate(engine_factory(), [tool_use_response(GOOD)], request)
    assert reply.calls[0].name == "get_weather"
    assert sent.headers[BETA] == "a,b"
    assert sent.body == {**body, "model": "m", "stream": True}


def test_the_provider_counts_the_tokens_of_what_is_read() -> None:
    request = replace(make_request(), temperature=0.5)

    async def work() -> tuple[int, ReceivedRequest]:
        async with provider(json_response({"input_tokens": 12})) as server, engine_factory()(server.url) as engine:
            return await engine.count_tokens(request), server.requests[0]

    count, sent = asyncio.run(work())
    assert (count, sent.path) == (12, "/v1/messages/count_tokens")
    assert sent.body.keys() == {"model", "messages", "tools"}
