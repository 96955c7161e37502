"""A required call is made, or its absence is an error in every API: never an empty success."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from engines.tools import PLAIN_TEMPLATE
from ferrule.engines.fake import FakeGenerator
from ferrule.engines.generator import ModelFacts
from ferrule.engines.text.engine import TextEngine, TextOptions
from server.client import ClientResponse, gateway_of

TAGS = {"type": "object", "properties": {"tags": {"type": "array", "items": {"type": "string"}, "uniqueItems": True}}}
# No grammar expresses uniqueItems.
TWICE = '<tool_call>\n{"name": "tag", "arguments": {"tags": ["a", "a"]}}\n</tool_call>'
ONCE = TWICE.replace('"a", "a"', '"a", "b"')
REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": (
        "/v1/chat/completions",
        {
            "messages": [{"role": "user", "content": "Tag it."}],
            "tools": [{"type": "function", "function": {"name": "tag", "parameters": TAGS}}],
            "tool_choice": "required",
        },
    ),
    "responses": (
        "/v1/responses",
        {
            "input": "Tag it.",
            "tools": [{"type": "function", "name": "tag", "parameters": TAGS}],
            "tool_choice": "required",
        },
    ),
    "messages": (
        "/v1/messages",
        {
            "max_tokens": 500,
            "messages": [{"role": "user", "content": "Tag it."}],
            "tools": [{"name": "tag", "input_schema": TAGS}],
            "tool_choice": {"type": "any"},
        },
    ),
}
ENDS = {b'"finish_reason":"stop"', b'"finish_reason": "stop"', b"response.completed", b"message_stop"}


def answer(api: str, texts: list[str], *, stream: bool) -> ClientResponse:
    async def scenario() -> ClientResponse:
        generator = FakeGenerator(texts, ModelFacts(template=PLAIN_TEMPLATE))
        async with gateway_of(TextEngine(generator, TextOptions(format="hermes"))) as client:
            path, body = REQUESTS[api]
            return await client.post(path, {"model": "m", "stream": stream, **body})

    return asyncio.run(scenario())


@pytest.mark.parametrize("api", REQUESTS)
@pytest.mark.parametrize("texts", [[TWICE, TWICE], ["No."], ["", ""]])
def test_without_a_valid_call_the_answer_is_an_error(api: str, texts: list[str]) -> None:
    response = answer(api, texts, stream=False)
    # A failed response is an object of its own in the Responses API; everywhere else it is an HTTP error.
    failed = response.json()["status"] == "failed" if api == "responses" and response.status == 200 else False
    assert failed or response.status == 502
    assert b"produced no valid one" in response.body


@pytest.mark.parametrize("api", REQUESTS)
@pytest.mark.parametrize("texts", [[TWICE, TWICE], ["No."]])
def test_without_a_valid_call_a_stream_ends_with_an_error(api: str, texts: list[str]) -> None:
    response = answer(api, texts, stream=True)
    assert b"produced no valid one" in response.body
    assert not [end for end in ENDS if end in response.body]


@pytest.mark.parametrize("api", REQUESTS)
@pytest.mark.parametrize("stream", [False, True])
def test_the_error_has_its_code_in_every_api(api: str, stream: bool) -> None:
    assert b'"no_valid_call"' in answer(api, [TWICE, TWICE], stream=stream).body


@pytest.mark.parametrize("api", REQUESTS)
@pytest.mark.parametrize("stream", [False, True])
def test_arguments_that_do_not_fit_are_written_again(api: str, stream: bool) -> None:
    response = answer(api, [TWICE, ONCE], stream=stream)
    assert response.status == 200
    assert b"produced no valid one" not in response.body
    if not stream:
        assert response.body.replace(b"\\", b"").count(b'["a", "b"]') >= 1
