"""A call that must not run is not begun: nothing of it reaches a client, streamed or not, and the client sees why."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from ferrule.core.call import How, Receipt
from ferrule.core.event import ArgumentsDelta, CallEnd, CallStart, Diagnostic, Event, Finish, FinishReason, TextDelta
from ferrule.core.request import ToolCallRequest
from ferrule.engines.engine import ALL_CHOICES, Engine, Traits
from server.client import ClientResponse, gateway_of

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
# What marks a call in each API; the extension, which may name it, is removed first.
CALL_MARKS = (b'"tool_calls":[{', b'"tool_calls": [{', b'"type":"tool_use"', b'"type": "tool_use"', b"function_call")


class Recorded(Engine):
    """Streams recorded events."""

    traits = Traits(name="recorded", honours=ALL_CHOICES)

    def __init__(self, events: list[Event]) -> None:
        self._events = events

    async def stream_request(self, request: ToolCallRequest) -> AsyncGenerator[Event, None]:
        for event in self._events:
            yield event

    async def close(self) -> None:
        return


def answer(api: str, events: list[Event], *, stream: bool, **more: Any) -> ClientResponse:
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


def test_live_arguments_are_sent_on_request() -> None:
    response = answer("chat", CUT, stream=True, ferrule={"live_arguments": True})
    assert b"rm_everything" in response.body.split(b'"incomplete"')[0]
