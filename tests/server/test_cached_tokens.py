"""How much of a prompt an engine had in its cache reaches the client of every API, the metrics and the log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from ferrule.core.event import Usage, add_usage
from ferrule.dialects.anthropic.response_body import usage_body
from ferrule.engines.fake import FakeGenerator
from ferrule.engines.generator import CompletionEnd, CompletionRequest, ModelFacts, Piece
from ferrule.engines.text.engine import TextEngine, TextOptions
from server.client import gateway_of


class CachingGenerator(FakeGenerator):
    """Has read 90 of the 100 tokens of each prompt before."""

    async def generate(self, request: CompletionRequest) -> AsyncGenerator[Piece | CompletionEnd, None]:
        yield Piece("Hello.")
        yield CompletionEnd(False, 100, 5, 90)


USER = [{"role": "user", "content": "Hello?"}]
EXPECTED: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "chat": (
        "/v1/chat/completions",
        {"messages": USER},
        {
            "prompt_tokens": 100,
            "completion_tokens": 5,
            "total_tokens": 105,
            "prompt_tokens_details": {"cached_tokens": 90},
        },
    ),
    "messages": (
        "/v1/messages",
        {"messages": USER, "max_tokens": 50},
        {"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 90},
    ),
    "responses": (
        "/v1/responses",
        {"input": USER},
        {"input_tokens": 100, "input_tokens_details": {"cached_tokens": 90, "cache_write_tokens": 0}},
    ),
}


@pytest.mark.parametrize("api", EXPECTED)
def test_the_usage_of_an_answer_says_how_many_prompt_tokens_were_cached(api: str) -> None:
    path, body, expected = EXPECTED[api]

    async def story() -> None:
        engine = TextEngine(CachingGenerator([], ModelFacts()), TextOptions(format="hermes"))
        async with gateway_of(engine) as client:
            usage = (await client.post(path, body)).json()["usage"]
            assert {name: usage[name] for name in expected} == expected
            streamed = await client.post(path, {**body, "stream": True, "stream_options": {"include_usage": True}})
            last = next(event for event in reversed(streamed.events()) if usage_of(event))
            assert {name: usage_of(last)[name] for name in expected} == expected
            metrics = (await client.get("/metrics")).body.decode()
            assert 'ferrule_cached_tokens_total{model="e0"} 180' in metrics

    asyncio.run(story())


def usage_of(event: dict[str, Any]) -> dict[str, Any]:
    return event.get("usage") or (event.get("response") or {}).get("usage") or {}


def test_an_engine_that_counts_cached_tokens_beside_the_prompt_is_not_answered_with_a_negative_number() -> None:
    assert usage_body(Usage(3, 2, 90)) == {"input_tokens": 0, "output_tokens": 2, "cache_read_input_tokens": 90}


def test_usages_are_added_with_what_was_cached() -> None:
    assert add_usage(Usage(10, 2, 4), Usage(20, 3, 15)) == Usage(30, 5, 19)
