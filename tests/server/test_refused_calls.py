"""A call that must not run is not begun: nothing of it reaches a client, streamed or not, and the client sees why."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import pytest

from ferrule.core.call import How, Receipt
from ferrule.core.event import ArgumentsDelta, CallEnd, CallStart, Diagnostic, Event, Finish, FinishReason, TextDelta
from ferrule.core.request import ToolCallRequest
from ferrule.core.tool import ToolDefinition
from ferrule.engines.engine import ALL_CHOICES, Engine, Traits
from ferrule.errors import EngineError
from ferrule.sources.fake import FakeSource
from server.client import ClientResponse, gateway_of
from server.keys import bearer, config_with_keys, key

WEATHER = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": (
        "/v1/chat/completions",
        {
            "messages": [{"role": "user", "content": "Rome?"}],
            "tools": [{"type": "function", "function": {"name": "weather", "parameters": WEATHER}}],
        },
    ),
    "responses": (
        "/v1/responses",
        {"input": "Rome?", "tools": [{"type": "function", "name": "weather", "parameters": WEATHER}]},
    ),
    "messages": (
        "/v1/messages",
        {
            "max_tokens": 100,
            "messages": [{"role": "user", "content": "Rome?"}],
            "tools": [{"name": "weather", "input_schema": WEATHER}],
        },
    ),
}
RECEIPT = Receipt(how=How.REFUSED, engine="e", path="p")
BEGUN: list[Event] = [CallStart(0, "call_1", "rm_everything"), ArgumentsDelta(0, '{"path": "/tmp/secret')]
REFUSED: list[Event] = [
    *BEGUN,
    ArgumentsDelta(0, '"}'),
    Diagnostic("not_offered", "'rm_everything' is not offered", index=0),
    CallEnd(0, complete=False, receipt=RECEIPT),
    Finish(FinishReason.STOP),
]
CUT: list[Event] = [*BEGUN, CallEnd(0, complete=False, receipt=RECEIPT), Finish(FinishReason.LENGTH)]
BROKEN_OFF = EngineError("connection lost", code="broken_off")
# What marks a call in each API; the extension, which may name it, is removed first.
CALL_MARKS = (b'"tool_calls":[{', b'"tool_calls": [{', b'"type":"tool_use"', b'"type": "tool_use"', b"function_call")


class Recorded(Engine):
    """Streams recorded events, and raises recorded errors."""

    traits = Traits(name="recorded", honours=ALL_CHOICES)

    def __init__(self, events: Sequence[Event | EngineError]) -> None:
        self._events = events

    async def stream_request(self, request: ToolCallRequest) -> AsyncGenerator[Event, None]:
        for event in self._events:
            if isinstance(event, EngineError):
                raise event
            yield event

    async def close(self) -> None:
        return


def answer(api: str, events: Sequence[Event | EngineError], *, stream: bool, **more: Any) -> ClientResponse:
    async def scenario() -> ClientResponse:
        async with gateway_of(Recorded(events)) as client:
            path, body = REQUESTS[api]
            return await client.post(path, {"model": "m", "stream": stream, **body, **more})

    return asyncio.run(scenario())


@pytest.mark.parametrize("api", REQUESTS)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("events", [REFUSED, CUT, [TextDelta("Let me see. "), *REFUSED]])
def test_nothing_of_a_refused_or_cut_off_call_is_begun(api: str, stream: bool, events: list[Event]) -> None:
    response = answer(api, events, stream=stream)
    assert response.status == 200
    assert not [mark for mark in CALL_MARKS if mark in response.body]


@pytest.mark.parametrize("api", REQUESTS)
@pytest.mark.parametrize("stream", [False, True])
def test_a_refused_call_is_reported_as_text_and_never_as_an_empty_success(api: str, stream: bool) -> None:
    assert b"[A tool call was refused: 'rm_everything' is not offered]" in answer(api, REFUSED, stream=stream).body


@pytest.mark.parametrize("api", REQUESTS)
@pytest.mark.parametrize("stream", [False, True])
def test_a_call_that_was_cut_off_ends_with_the_reason_length(api: str, stream: bool) -> None:
    body = answer(api, CUT, stream=stream).body
    assert any(word in body for word in (b'"length"', b"max_tokens", b"max_output_tokens"))
    assert b"refused:" not in body


@pytest.mark.parametrize("api", REQUESTS)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "events, text", [(REFUSED, b"[A tool call was refused: "), (CUT, b"[A tool call was cut off ")]
)
def test_a_refused_call_of_the_gateways_own_tools_is_reported_too(
    api: str, stream: bool, events: list[Event], text: bytes
) -> None:
    async def scenario() -> ClientResponse:
        async with gateway_of(Recorded(events), sources=[FakeSource([ToolDefinition("look")])]) as client:
            path, body = REQUESTS[api]
            without_tools = {name: value for name, value in body.items() if name != "tools"}
            return await client.post(path, {"model": "e0", "stream": stream, **without_tools})

    assert asyncio.run(scenario()).body.count(text) >= 1


@pytest.mark.parametrize("api", REQUESTS)
@pytest.mark.parametrize("stream", [False, True])
def test_a_call_that_was_cut_off_is_reported_as_text(api: str, stream: bool) -> None:
    assert b"[A tool call was cut off at the token limit.]" in answer(api, CUT, stream=stream).body


@pytest.mark.parametrize("api", ["chat", "messages"])
def test_an_engine_that_breaks_off_inside_the_first_call_is_an_error_with_a_status(api: str) -> None:
    response = answer(api, [*BEGUN, BROKEN_OFF], stream=True)
    assert response.status == 503
    assert b"rm_everything" not in response.body


@pytest.mark.parametrize("api", REQUESTS)
def test_an_engine_that_breaks_off_after_text_ends_the_stream_with_an_error_and_without_an_end(api: str) -> None:
    response = answer(api, [TextDelta("Let me see. "), *BEGUN, BROKEN_OFF], stream=True)
    assert response.status == 200
    assert b"connection lost" in response.body
    assert not [mark for mark in (*CALL_MARKS, b"message_stop", b"response.completed") if mark in response.body]
    # A stream of the Responses API ends in the same way after `response.failed`, which says that it failed.
    assert (b"[DONE]" in response.body) is (b"event: response.failed" in response.body) is (api == "responses")


def test_live_arguments_are_sent_on_request() -> None:
    response = answer("chat", CUT, stream=True, ferrule={"live_arguments": True})
    assert b"rm_everything" in response.body.split(b'"incomplete"')[0]


@pytest.mark.parametrize(
    "name, more, is_live",
    [
        ("live", {}, True),
        ("live", {"ferrule": {"live_arguments": False}}, False),
        ("plain", {}, False),
    ],
)
@pytest.mark.parametrize("api", ["chat", "messages"])
def test_a_key_can_have_live_arguments_and_a_request_can_turn_them_off(
    api: str, name: str, more: dict[str, Any], is_live: bool
) -> None:
    keys = (key("live", live_arguments=True), key("plain"))

    async def scenario() -> ClientResponse:
        async with gateway_of(Recorded(CUT), config=config_with_keys(*keys)) as client:
            path, body = REQUESTS[api]
            return await client.request("POST", path, {"model": "e0", "stream": True, **body, **more}, bearer(name))

    begun = asyncio.run(scenario()).body.split(b'"incomplete"')[0]
    assert (b"rm_everything" in begun) is is_live
