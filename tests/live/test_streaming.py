"""The stream of a real model: arguments come early, only extend, and stop when nobody listens."""

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
from ferrule.engines.generator import Ended, Piece, Writing
from ferrule.engines.text.engine import TextEngine, TextOptions
from live.model import generator, smol

pytestmark = pytest.mark.live

NOTE = (
    ToolDefinition.build("take_note")
    .parameter("title", {"type": "string"}, required=True)
    .parameter("text", {"type": "string", "minLength": 200}, required=True)
    .done()
)
ASKED = ToolCallRequest(
    messages=(ChatMessage.user("Take a note about the history of Paris."),),
    tools=(NOTE,),
    tool_choice=ToolChoice.required(),
    parallel_tool_calls=False,
    max_tokens=300,
    temperature=0.0,
)


class Counted:
    """The real backend, and how many tokens have come out of it."""

    def __init__(self) -> None:
        self.tokens = 0
        self._inner = generator()
        self.traits, self.facts, self.templated = self._inner.traits, self._inner.facts, self._inner.templated
        self.count, self.cut, self.spelled = self._inner.count, self._inner.cut, self._inner.spelled

    async def write(self, writing: Writing) -> AsyncGenerator[Piece | Ended, None]:
        async for piece in self._inner.write(writing):
            self.tokens += isinstance(piece, Piece)
            yield piece

    async def close(self) -> None:
        return


@pytest.mark.parametrize("format", ["hermes", "qwen_xml", "mistral_v13"])
def test_the_first_delta_of_the_arguments_comes_before_a_third_of_the_calls_tokens(format: str) -> None:
    backend = Counted()

    async def collected() -> list[tuple[int, Event]]:
        return [
            (backend.tokens, event) async for event in TextEngine(backend, TextOptions(format=format)).stream(ASKED)
        ]

    events = asyncio.run(collected())
    first = next(tokens for tokens, event in events if isinstance(event, ArgumentsDelta))
    (last, end), *_ = ((tokens, event) for tokens, event in events if isinstance(event, CallEnd))
    assert first < 0.3 * last
    assert isinstance(end, CallEnd)
    assert end.complete
    reply = fold(event for _, event in events)
    deltas = "".join(event.json for _, event in events if isinstance(event, ArgumentsDelta))
    assert reply.calls[0].function.arguments == deltas


def test_closing_the_stream_in_mid_call_stops_the_engine_within_two_tokens() -> None:
    taken: list[dict[str, object]] = []
    backend = generator()
    real = backend._server  # pyright: ignore[reportPrivateUsage]

    class Counting:
        """The real server, each of whose chunks is counted on its way."""

        def handle_completions(self, body: object, told: object) -> object:
            def counted(chunk: dict[str, object]) -> bool:
                taken.append(chunk)
                return told(chunk)  # type: ignore[operator]

            return real.handle_completions(body, counted)

    async def stopped() -> int:
        events = smol("hermes").stream(ASKED)
        async for event in events:
            if isinstance(event, ArgumentsDelta):
                break
        seen = len(taken)
        await events.aclose()
        await asyncio.sleep(1.0)
        return seen

    backend._server = Counting()  # pyright: ignore[reportPrivateUsage]
    try:
        seen = asyncio.run(stopped())
    finally:
        backend._server = real  # pyright: ignore[reportPrivateUsage]
    assert len(taken) <= seen + 2


def test_a_free_answer_ends_where_the_model_ends_it() -> None:
    request = ToolCallRequest(messages=(ChatMessage.user("Say hello."),), tools=(NOTE,), max_tokens=200, temperature=0)
    reply = smol("hermes").generate(request)
    assert reply.finish is FinishReason.STOP
    assert reply.text


def test_requests_run_side_by_side() -> None:
    came: list[int] = []

    async def read(number: int) -> None:
        async for event in smol("hermes").stream(ASKED):
            if isinstance(event, ArgumentsDelta):
                came.append(number)

    async def all_of_them() -> None:
        await asyncio.gather(*map(read, range(4)))

    asyncio.run(all_of_them())
    turns = sum(one != other for one, other in pairwise(came))
    assert {*came} == {0, 1, 2, 3}
    assert turns > len(came) / 4


def test_the_next_turn_reads_only_what_is_new() -> None:
    async def prompt_tokens_read(prompt: str) -> int:
        async for piece in generator().write(Writing(prompt=prompt, max_tokens=1, temperature=0)):
            if isinstance(piece, Ended):
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


def test_llama_cpp_is_held_by_both_kinds_of_grammar() -> None:
    backend = generator()
    asyncio.run(backend.facts())
    assert backend.traits.targets == ("lark", "gbnf")
