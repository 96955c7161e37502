"""Streams of a real model: arguments arrive early, only grow, and stop when the client disconnects."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from itertools import pairwise

import pytest

from ferrule import (
    ArgumentsDelta,
    CallEnd,
    ChatMessage,
    Event,
    FinishReason,
    TextDelta,
    ToolCallRequest,
    ToolChoice,
    ToolDefinition,
    fold,
)
from ferrule.engines.generator import CompletionEnd, CompletionRequest, Piece
from ferrule.engines.text.engine import TextEngine, TextOptions
from live.model import generator, smol

pytestmark = pytest.mark.live

NOTE = (
    ToolDefinition.build("take_note")
    .parameter("title", {"type": "string", "maxLength": 60}, required=True)
    .parameter("text", {"type": "string", "maxLength": 300}, required=True)
    .done()
)
REQUEST = ToolCallRequest(
    messages=(ChatMessage.user("Take a note about the history of Paris."),),
    tools=(NOTE,),
    tool_choice=ToolChoice.required(),
    parallel_tool_calls=False,
    max_tokens=300,
    temperature=0.0,
)


class CountingGenerator:
    """The real backend, with a count of its tokens."""

    def __init__(self) -> None:
        self.tokens = 0
        self._inner = generator()
        self.traits, self.facts, self.apply_template = self._inner.traits, self._inner.facts, self._inner.apply_template
        self.count_tokens, self.tokenize, self.detokenize = (
            self._inner.count_tokens,
            self._inner.tokenize,
            self._inner.detokenize,
        )

    async def generate(self, request: CompletionRequest) -> AsyncGenerator[Piece | CompletionEnd, None]:
        async for piece in self._inner.generate(request):
            self.tokens += isinstance(piece, Piece)
            yield piece

    async def close(self) -> None:
        return


@pytest.mark.parametrize("format", ["hermes", "qwen_xml", "mistral_v13"])
def test_the_first_delta_of_the_arguments_comes_before_a_third_of_the_calls_tokens(format: str) -> None:
    backend = CountingGenerator()

    async def collect() -> list[tuple[int, Event]]:
        return [
            (backend.tokens, event) async for event in TextEngine(backend, TextOptions(format=format)).stream(REQUEST)
        ]

    events = asyncio.run(collect())
    first = next(tokens for tokens, event in events if isinstance(event, ArgumentsDelta))
    (last, end), *_ = ((tokens, event) for tokens, event in events if isinstance(event, CallEnd))
    assert first < 0.3 * last
    assert isinstance(end, CallEnd)
    assert end.complete
    reply = fold(event for _, event in events)
    deltas = "".join(event.json for _, event in events if isinstance(event, ArgumentsDelta))
    assert reply.calls[0].function.arguments == deltas


def test_closing_the_stream_in_mid_call_stops_the_engine_within_two_tokens() -> None:
    chunks: list[dict[str, object]] = []
    backend = generator()
    real_server = backend._server  # pyright: ignore[reportPrivateUsage]

    class Counting:
        """The real server, with a count of its chunks."""

        def handle_completions(self, body: object, on_chunk: object) -> object:
            def count_chunk(chunk: dict[str, object]) -> bool:
                chunks.append(chunk)
                return on_chunk(chunk)  # type: ignore[operator]

            return real_server.handle_completions(body, count_chunk)

    async def stop_early() -> int:
        events = smol("hermes").stream(REQUEST)
        async for event in events:
            if isinstance(event, ArgumentsDelta):
                break
        chunks_before = len(chunks)
        await events.aclose()
        await asyncio.sleep(1.0)
        return chunks_before

    backend._server = Counting()  # pyright: ignore[reportPrivateUsage]
    try:
        chunks_before = asyncio.run(stop_early())
    finally:
        backend._server = real_server  # pyright: ignore[reportPrivateUsage]
    assert len(chunks) <= chunks_before + 2


def test_a_free_answer_ends_where_the_model_ends_it() -> None:
    request = ToolCallRequest(messages=(ChatMessage.user("Say hello."),), tools=(NOTE,), max_tokens=200, temperature=0)
    reply = smol("hermes").generate(request)
    assert reply.finish is FinishReason.STOP
    assert reply.text


def test_requests_run_side_by_side() -> None:
    arrivals: list[int] = []

    async def read(number: int) -> None:
        async for event in smol("hermes").stream(REQUEST):
            if isinstance(event, ArgumentsDelta):
                arrivals.append(number)

    async def all_of_them() -> None:
        await asyncio.gather(*map(read, range(4)))

    asyncio.run(all_of_them())
    turns = sum(one != other for one, other in pairwise(arrivals))
    assert {*arrivals} == {0, 1, 2, 3}
    assert turns > len(arrivals) / 4


def test_the_next_turn_reads_only_what_is_new() -> None:
    async def prompt_tokens_read(prompt: str) -> int:
        async for piece in generator().generate(CompletionRequest(prompt=prompt, max_tokens=1, temperature=0)):
            if isinstance(piece, CompletionEnd):
                return piece.cached_tokens or 0
        return 0

    first = "Once upon a time there was a lighthouse keeper who counted ships. " * 8
    asyncio.run(prompt_tokens_read(first))
    assert asyncio.run(prompt_tokens_read(first + "One day")) > 80


def test_text_streams_as_it_forms() -> None:
    async def pieces() -> int:
        request = ToolCallRequest(messages=(ChatMessage.user("Tell me a story."),), max_tokens=40, temperature=0)
        return sum([isinstance(event, TextDelta) async for event in smol("hermes").stream(request)])

    assert asyncio.run(pieces()) > 20


def test_llama_cpp_enforces_both_kinds_of_grammar() -> None:
    backend = generator()
    asyncio.run(backend.facts())
    assert backend.traits.targets == ("lark", "gbnf")
