"""Images through every API of the gateway: the engine that takes them gets them, any other is told by a header."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from engines.tools import PLAIN_TEMPLATE
from ferrule.engines.fake import FakeGenerator
from ferrule.engines.generator import ModelFacts
from ferrule.engines.text.engine import TextEngine, TextOptions
from ferrule.server.answer.stream import MEDIA
from server.client import gateway_of

URL = "data:image/png;base64,AAAA"
SOURCE = {"type": "base64", "media_type": "image/png", "data": "AAAA"}
NAME = "[image 1: image/png, 3 bytes; this model cannot see images]"
CALL = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
# A tool of the client has returned the image.
BODIES: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": (
        "/v1/chat/completions",
        {
            "messages": [
                {"role": "user", "content": "Look."},
                {"role": "assistant", "tool_calls": [CALL]},
                {
                    "role": "tool",
                    "tool_call_id": "call_1",
                    "content": [{"type": "image_url", "image_url": {"url": URL}}],
                },
            ]
        },
    ),
    "messages": (
        "/v1/messages",
        {
            "max_tokens": 50,
            "messages": [
                {"role": "user", "content": "Look."},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "call_1", "name": "look", "input": {}}]},
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "tool_result",
                            "tool_use_id": "call_1",
                            "content": [{"type": "image", "source": SOURCE}],
                        }
                    ],
                },
            ],
        },
    ),
    "responses": (
        "/v1/responses",
        {
            "input": [
                {"role": "user", "content": "Look."},
                {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": "{}"},
                {
                    "type": "function_call_output",
                    "call_id": "call_1",
                    "output": [{"type": "input_image", "image_url": URL}],
                },
            ]
        },
    ),
}
WAYS: dict[str, dict[str, Any]] = {"whole": {}, "streamed": {"stream": True}, "not stored": {"store": False}}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("api", BODIES)
def test_a_header_says_what_a_text_model_reads_only_the_name_of(api: str, way: str) -> None:
    path, body = BODIES[api]
    more = WAYS[way] if api == "responses" or way != "not stored" else {}

    async def story() -> None:
        generator = FakeGenerator(["Hello."], ModelFacts(template=PLAIN_TEMPLATE))
        async with gateway_of(TextEngine(generator, TextOptions(format="hermes"))) as client:
            answer = await client.post(path, {**body, **more})
            assert answer.status == 200, answer.body
            assert answer.headers[MEDIA] == "named: 1 image"
            assert NAME in generator.requests[0].prompt
            assert "AAAA" not in generator.requests[0].prompt

    asyncio.run(story())


@pytest.mark.parametrize("api", BODIES)
def test_a_request_without_images_has_no_such_header(api: str) -> None:
    path, body = BODIES[api]
    key = "input" if api == "responses" else "messages"

    async def story() -> None:
        generator = FakeGenerator(["Hello."], ModelFacts(template=PLAIN_TEMPLATE))
        async with gateway_of(TextEngine(generator, TextOptions(format="hermes"))) as client:
            answer = await client.post(path, {**body, key: body[key][:1]})
            assert MEDIA not in answer.headers

    asyncio.run(story())
