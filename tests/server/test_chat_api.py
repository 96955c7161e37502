"""`/v1/chat/completions`: who runs the calls, streams, errors in OpenAI's shape."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from ferrule.core.call import ToolCall
from ferrule.core.event import Event, TextDelta
from ferrule.core.reply import Reply
from ferrule.core.request import ToolCallRequest
from ferrule.errors import EngineError, EngineUnavailableError
from ferrule.schema.tool_decorator import tool
from ferrule.sources.functions import Functions
from server.client import ClientResponse, gateway_of, scripted_engine
from server.test_router import FailingEngine

USER = [{"role": "user", "content": "What is the weather in Paris?"}]
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
CALL = Reply.of(ToolCall.of("weather", {"city": "Paris"}, id="call_1"))


@tool
def weather(city: str) -> str:
    """The weather in a city."""
    return f"sunny in {city}"


def complete(body: dict[str, Any], *replies: Reply | str, own: bool = False) -> ClientResponse:
    async def scenario() -> ClientResponse:
        sources = [Functions([weather])] if own else []
        async with gateway_of(scripted_engine(*replies), sources=sources) as client:
            return await client.post("/v1/chat/completions", {"model": "m", "messages": USER, **body})

    return asyncio.run(scenario())


def text_of(events: list[Any]) -> str:
    return "".join(one["choices"][0]["delta"].get("content") or "" for one in events if one["choices"])


@pytest.mark.parametrize("stream", [False, True])
def test_without_tools_on_either_side_what_looks_like_a_call_is_text(stream: bool) -> None:
    marked = '<tool_call>\n{"name": "weather", "arguments": {}}\n</tool_call>'
    answer = complete({"stream": stream}, marked)
    text = text_of(answer.events()) if stream else answer.json()["choices"][0]["message"]["content"]
    assert text == marked


@pytest.mark.parametrize("own", [False, True])
def test_the_caller_runs_calls_of_its_own_tools(own: bool) -> None:
    choice = complete({"tools": [WEATHER]}, CALL, own=own).json()["choices"][0]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["tool_calls"][0]["function"] == {"name": "weather", "arguments": '{"city": "Paris"}'}


@pytest.mark.parametrize("stream", [False, True])
def test_the_gateways_own_tools_run_between_two_parts_of_one_answer(stream: bool) -> None:
    reply = Reply.of("Let me look. ", *CALL.parts)
    answer = complete({"stream": stream}, reply, "It is sunny.", own=True)
    if stream:
        events = answer.events()
        assert text_of(events) == "Let me look. It is sunny."
        assert [one["choices"][0]["finish_reason"] for one in events if one["choices"]][-1] == "stop"
        assert not any("tool_calls" in one["choices"][0]["delta"] for one in events if one["choices"])
        keys = [key for one in events for key in one.get("ferrule", {})]
        assert keys == ["tool_call", "tool_started", "tool_finished"]
        assert answer.body.endswith(b"data: [DONE]\n\n")
    else:
        body = answer.json()
        assert body["choices"][0]["message"]["content"] == "Let me look. It is sunny."
        assert body["choices"][0]["finish_reason"] == "stop"
        assert body["ferrule"]["events"][-1]["tool_finished"]["content"] == "sunny in Paris"


def test_several_rounds_of_the_gateways_tools_are_one_answer() -> None:
    other = Reply.of(ToolCall.of("weather", {"city": "Rome"}, id="call_2"))
    answer = complete({}, CALL, other, "Both are sunny.", own=True).json()
    finished = [one["tool_finished"]["content"] for one in answer["ferrule"]["events"] if "tool_finished" in one]
    assert finished == ["sunny in Paris", "sunny in Rome"]
    assert answer["choices"][0]["message"]["content"] == "Both are sunny."


@pytest.mark.parametrize(
    "tools, is_called",
    [("gateway", True), (["weather"], True), ("none", False), (["another"], False)],
)
def test_a_caller_without_tools_chooses_whether_the_gateways_are_used(tools: Any, is_called: bool) -> None:
    async def scenario() -> tuple[str, ...]:
        engine = scripted_engine("well")
        async with gateway_of(engine, sources=[Functions([weather])]) as client:
            body = {"model": "m", "messages": USER, "ferrule": {"tools": tools}}
            assert (await client.post("/v1/chat/completions", body)).status == 200
        return tuple(one.name for one in engine.requests[0].tools)

    assert (asyncio.run(scenario()) == ("weather",)) is is_called


def test_a_caller_cannot_combine_its_own_tools_and_the_gateways() -> None:
    answer = complete({"tools": [WEATHER], "ferrule": {"tools": "gateway"}}, "never", own=True)
    assert answer.status == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"


def test_receipts_ride_in_the_extension_and_in_a_header() -> None:
    answer = complete({"tools": [WEATHER]}, CALL)
    assert answer.json()["ferrule"]["receipts"]["call_1"]["how"] == "validated"
    assert answer.headers["ferrule-receipts"] == "call_1=validated"


def complete_with_failure(error: EngineError, after: int, **body: Any) -> ClientResponse:
    async def scenario() -> ClientResponse:
        async with gateway_of(FailingEngine(error, after)) as client:
            return await client.post("/v1/chat/completions", {"model": "m", "messages": USER, **body})

    return asyncio.run(scenario())


def test_an_engine_that_fails_at_once_gives_a_status_also_to_a_stream() -> None:
    answer = complete_with_failure(EngineUnavailableError("busy"), 0, stream=True)
    assert answer.status == 503
    assert answer.headers["x-should-retry"] == "true"
    assert answer.json()["error"]["code"] == "engine_unavailable"


def test_an_engine_that_fails_in_mid_stream_ends_it_with_an_error_and_no_finish() -> None:
    answer = complete_with_failure(EngineError("broke"), 3, stream=True)
    events = answer.events()
    assert answer.status == 200
    assert events[-1]["error"]["code"] == "broken_off"
    assert not any(one["choices"][0]["finish_reason"] for one in events[:-1])
    assert b"[DONE]" not in answer.body


@pytest.mark.parametrize(
    "body, status", [(b"{", 400), (b"[]", 400), ({"messages": []}, 400), ({"messages": USER, "n": 2}, 400)]
)
def test_an_invalid_body_is_refused_with_a_message(body: Any, status: int) -> None:
    async def scenario() -> ClientResponse:
        async with gateway_of(scripted_engine("never")) as client:
            return await client.post("/v1/chat/completions", body)

    answer = asyncio.run(scenario())
    assert answer.status == status
    assert answer.json()["error"]["message"]
    assert answer.headers["x-request-id"]


def test_a_call_with_side_effects_waits_for_approval_and_then_resumes() -> None:
    written: list[str] = []

    @tool(side_effects=True)
    def write(text: str) -> str:
        """Writes it down."""
        written.append(text)
        return "written"

    async def scenario() -> tuple[Any, Any]:
        engine = scripted_engine(Reply.of(ToolCall.of("write", {"text": "x"}, id="c")), "It is written.")
        async with gateway_of(engine, sources=[Functions([write])]) as client:
            first = (await client.post("/v1/chat/completions", {"model": "m", "messages": USER})).json()
            waiting = next(one["waiting"] for one in first["ferrule"]["events"] if "waiting" in one)
            assert written == []
            await client.gateway.ledger.approve(waiting["approvals"][0], "somebody", now=time.time())
            body = {"model": "m", "messages": USER, "ferrule": {"resume": waiting["conversation"]}}
            return first, (await client.post("/v1/chat/completions", body)).json()

    first, second = asyncio.run(scenario())
    assert "Waiting for approval of write" in first["choices"][0]["message"]["content"]
    assert second["choices"][0]["message"]["content"] == "It is written."
    assert written == ["x"]


def test_a_client_that_leaves_stops_the_engine() -> None:
    stopped = asyncio.Event()

    class Endless(FailingEngine):
        async def stream_request(self, request: ToolCallRequest) -> AsyncGenerator[Event, None]:
            try:
                while True:
                    await asyncio.sleep(0)
                    yield TextDelta("on and ")
            finally:
                stopped.set()

    async def scenario() -> None:
        async with gateway_of(Endless(EngineError("never"))) as client:
            leaves = asyncio.Event()
            body = {"model": "m", "messages": USER, "stream": True}
            task = asyncio.ensure_future(client.request("POST", "/v1/chat/completions", body, disconnect=leaves))
            await asyncio.sleep(0.05)
            leaves.set()
            await task
            assert stopped.is_set()

    asyncio.run(scenario())
