"""No input is answered with status 500, and a malformed call in a client's history is repaired with a note."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

import sampling
from ferrule.core.call import ToolCall
from ferrule.core.event import Event
from ferrule.core.ids import NINE_ALNUM
from ferrule.core.reply import Reply
from ferrule.core.request import ToolCallRequest
from ferrule.engines.fake import FakeEngine, FakeGenerator
from ferrule.engines.generator import ModelFacts
from ferrule.engines.text.engine import TextEngine, TextOptions
from ferrule.formats import get_format, render
from ferrule.wire.history import FOREIGN_IDS
from lab.inputs.run import send_inputs
from lab.inputs.shapes import APIS, CHAT, MESSAGES, RESPONSES
from lab.inputs.world import CHATML, IDS, RESULTS, odd_tools
from server.client import ClientResponse, gateway_of

# About 20 ms of work each. `scripts/long inputs` sends 10,000 to each API.
BODIES = 300
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
CUT_OFF = '{"city": "Ro'


@pytest.mark.parametrize("api", APIS)
def test_no_mutated_body_is_answered_with_status_500(api: str) -> None:
    findings = asyncio.run(send_inputs(BODIES, apis=(api,), seed=sampling.seed()))
    assert not findings.failures, "\n".join(map(str, findings.failures))
    # A fuzzer whose bodies are all refused at once tests nothing.
    assert findings.statuses[api][200] > BODIES // 10


class CallingEngine(FakeEngine):
    """Calls a tool, and then answers."""

    def __init__(self, name: str) -> None:
        super().__init__([Reply.of(ToolCall.of(name, "{}", "c1"))])

    def stream_request(self, request: ToolCallRequest) -> AsyncGenerator[Event, None]:
        if request.messages[-1].results:
            # As an engine encodes it.
            request.messages[-1].results[0].text.encode()
            return FakeEngine([Reply.of("Done.")]).stream_request(request)
        return super().stream_request(request)


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("name", RESULTS)
def test_whatever_a_tool_returns_the_conversation_goes_on(name: str, api: str) -> None:
    async def scenario() -> ClientResponse:
        body = (
            {"messages": [{"role": "user", "content": "Try."}], "max_tokens": 9}
            if api != RESPONSES
            else {"input": "Try."}
        )
        async with gateway_of(CallingEngine(name), sources=[odd_tools()]) as client:
            return await client.post(api, {"model": "e0", **body})

    response = asyncio.run(scenario())
    assert (response.status, b"Done." in response.body) == (200, True)


def history_of(api: str, arguments: str) -> dict[str, Any]:
    """A conversation with a cut-off call, and its result, in the shape of each API."""
    match api:
        case "/v1/chat/completions":
            call = {"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": arguments}}
            messages = [
                {"role": "user", "content": "How is Rome?"},
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "c1", "content": "invalid JSON"},
            ]
            function = {"name": "get_weather", "parameters": SCHEMA}
            return {"messages": messages, "tools": [{"type": "function", "function": function}]}
        case _:
            items = [
                {"role": "user", "content": "How is Rome?"},
                {"type": "function_call", "call_id": "c1", "name": "get_weather", "arguments": arguments},
                {"type": "function_call_output", "call_id": "c1", "output": "invalid JSON"},
            ]
            return {"input": items, "tools": [{"type": "function", "name": "get_weather", "parameters": SCHEMA}]}


def ask(
    api: str, body: dict[str, Any], format: str = "hermes", template: str = CHATML, reply: str = "It is sunny."
) -> tuple[ClientResponse, str]:
    """The answer, and the prompt that the model read."""

    async def scenario() -> tuple[ClientResponse, str]:
        generator = FakeGenerator([reply], ModelFacts(template=template), size=100)
        async with gateway_of(TextEngine(generator, TextOptions(format=format))) as client:
            response = await client.post(api, {"model": "e0", **body})
        return response, generator.requests[0].prompt

    return asyncio.run(scenario())


@pytest.mark.parametrize("api", [CHAT, RESPONSES])
@pytest.mark.parametrize("stream", [False, True])
def test_a_cut_off_call_in_the_history_is_read_as_text_with_a_note_in_the_response(api: str, stream: bool) -> None:
    response, prompt = ask(api, {**history_of(api, CUT_OFF), "stream": stream})
    assert response.status == 200
    assert '"arguments": {"INVALID_JSON": "{\\"city\\": \\"Ro"}' in prompt
    assert b"It is sunny." in response.body
    assert response.body.count(b'"history_repaired"') == 1 if api == CHAT else b'"history_repaired"' in response.body


@pytest.mark.parametrize("template", ["", IDS])
@pytest.mark.parametrize("api", [CHAT, RESPONSES])
def test_a_history_of_another_family_is_answered_with_a_note_in_the_receipt(api: str, template: str) -> None:
    call = ToolCall.of("get_weather", {"city": "Rome"}, id="abcdefg01")
    written = render(get_format("mistral_v11"), Reply.of(call))
    response, prompt = ask(api, history_of(api, '{"city": "Oslo"}'), "mistral_v11", template, written)
    assert response.status == 200
    assert FOREIGN_IDS.encode() in response.body
    # The call and its result have the same id, in nine characters.
    assert '"c1"' not in prompt
    own_id = NINE_ALNUM.derive("c1", "get_weather", 0)
    assert prompt.count(own_id) == 2


@pytest.mark.parametrize("stream", [False, True])
def test_half_of_a_surrogate_pair_in_a_message_is_read_as_the_replacement_character(stream: bool) -> None:
    body = {"max_tokens": 9, "messages": [{"role": "user", "content": "cut \ud83d"}], "stream": stream}
    response, prompt = ask(MESSAGES, body)
    assert response.status == 200
    assert "cut \ufffd" in prompt
    assert b'"history_repaired"' in response.body


@pytest.mark.parametrize("inner", [{"allOf": [{"$ref": "#"}]}, {"$ref": "#", "minProperties": 1}])
def test_a_schema_whose_merging_never_ends_is_refused(inner: dict[str, Any]) -> None:
    async def scenario() -> ClientResponse:
        schema = {"type": "object", "properties": {"a": inner}}
        tools = [{"type": "function", "function": {"name": "t", "parameters": schema}}]
        async with gateway_of(
            TextEngine(FakeGenerator(["It is sunny."], targets=("gbnf",)), TextOptions(format="hermes"))
        ) as client:
            return await client.post(
                CHAT, {"model": "e0", "messages": [{"role": "user", "content": "hi"}], "tools": tools}
            )

    response = asyncio.run(scenario())
    assert (response.status, response.json()["error"]["code"]) == (400, "ref_cycle")


def test_a_number_that_no_float_holds_is_refused_with_its_field() -> None:
    text = b'{"messages": [{"role": "user", "content": "a"}], "response_format": {"type": "json_object"}, '
    text += b'"guided_json_schema": {"a": 1e999}}'

    async def scenario() -> ClientResponse:
        async with gateway_of(FakeEngine([Reply.of("Done.")])) as client:
            return await client.post(CHAT, text)

    response = asyncio.run(scenario())
    assert response.status == 400
    assert "guided_json_schema" in response.json()["error"]["message"]


@pytest.mark.parametrize("headers", [{}, {"idempotency-key": "a"}], ids=["once", "with a key"])
@pytest.mark.parametrize("store", ["true", "false"])
@pytest.mark.parametrize(
    "field",
    [
        '"tools": [{"type": "custom", "name": "a", "async": 1e999}]',
        '"tools": [{"type": "namespace", "name": "n", "z": 1e999, "tools": [{"type": "function", "name": "a"}]}]',
        '"input": [{"type": "additional_tools", "tools": [{"type": "function", "name": "a", "async": 1e999}]}]',
        '"tools": [{"type": "function", "name": "a"}], "tool_choice": {"type": "function", "name": "a", "z": 1e999}',
    ],
)
def test_a_number_that_no_float_holds_is_not_sent_back_or_stored(
    field: str, store: str, headers: dict[str, str]
) -> None:
    text = f'{{"input": "hi", "store": {store}, {field}}}'

    async def scenario() -> ClientResponse:
        async with gateway_of(FakeEngine([Reply.of("Done.")])) as client:
            return await client.post("/v1/responses", text.encode(), headers)

    response = asyncio.run(scenario())
    assert (response.status, "too large" in response.json()["error"]["message"]) == (400, True)


def test_a_number_that_no_float_holds_in_a_field_that_nobody_reads_does_not_fail_a_key() -> None:
    async def scenario() -> ClientResponse:
        async with gateway_of(FakeEngine([Reply.of("Done.")])) as client:
            text = b'{"messages": [{"role": "user", "content": "a"}], "z": 1e999}'
            return await client.post(CHAT, text, {"idempotency-key": "a"})

    assert asyncio.run(scenario()).status == 400


def test_a_well_formed_history_has_no_note() -> None:
    response, prompt = ask(CHAT, history_of(CHAT, '{"city": "Rome"}'))
    assert '"arguments": {"city": "Rome"}' in prompt
    assert "ferrule" not in response.json()
