"""Skipping gives the same events, receipts, budgets and finish reasons as generating everything."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any

import pytest

from engines.tools import PING, PLAIN_TEMPLATE, WEATHER, make_request
from ferrule import ArgumentsDelta, CallEnd, EngineError, FinishReason, ToolChoice, ToolDefinition, fold
from ferrule.engines.fake import FakeGenerator
from ferrule.engines.generator import CompletionEnd, CompletionRequest, ModelFacts, Piece
from ferrule.engines.text.engine import TextEngine, TextOptions
from ferrule.engines.text.skip_guard import SKIP_PAUSED, AnswerTime, HoleTime
from laws.minded import ScriptedModel, Vocabulary

PARIS = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris \\"x\\" \\\\", "days": 2}}\n</tool_call>'
SKIPS = TextOptions(format="hermes", skips=True)
REQUEST = replace(make_request(tools=(WEATHER, PING), choice=ToolChoice.required()), parallel_tool_calls=False)


class MindedGenerator(FakeGenerator):
    """A backend with one prepared answer; `breaks_at` is the number of the request that fails in its middle."""

    def __init__(self, text: str, *, size: int = 2, breaks_at: int = 0, counts: bool = False) -> None:
        super().__init__([], ModelFacts(template=PLAIN_TEMPLATE))
        self.text, self.size, self.breaks_at = text, size, breaks_at
        self.prompt = ""
        self.running = 0
        self.counts = counts
        # A character is a token here.
        self.words = Vocabulary(1)

    async def tokenize(self, *pieces: str, is_prompt: bool) -> tuple[int, ...] | None:
        return await self.words.tokenizer.tokenize("".join(pieces))

    async def detokenize(self, tokens: tuple[int, ...]) -> str | None:
        return self.words.spell(tokens)

    async def generate(self, request: CompletionRequest) -> AsyncGenerator[Piece | CompletionEnd, None]:
        self.requests.append(request)
        if not self.prompt:
            appended = next(n for n in range(len(self.text), -1, -1) if request.prompt.endswith(self.text[:n]))
            self.prompt = request.prompt[: len(request.prompt) - appended]
        minded = ScriptedModel(self.text, self.size, prompt=self.prompt, words=self.words)
        self.running += 1
        try:
            async for piece in minded.generate(request):
                await asyncio.sleep(0)
                if len(self.requests) == self.breaks_at:
                    raise EngineError("the engine went away")
                is_counted = self.counts and isinstance(piece, CompletionEnd)
                # The last token is always read again.
                read = {"prompt_tokens": len(request.prompt), "cached_tokens": len(request.prompt) - 1}
                yield replace(piece, **read) if is_counted else piece
        finally:
            self.running -= 1


def make_engine(text: str, **options: Any) -> tuple[TextEngine, MindedGenerator]:
    backend = MindedGenerator(text, **options)
    return TextEngine(backend, SKIPS), backend


def test_the_reply_is_the_same_and_the_receipt_says_what_was_skipped() -> None:
    engine, backend = make_engine(PARIS)
    reply = engine.generate(REQUEST)
    (call,) = reply.calls
    assert call.arguments == {"city": 'Paris "x" \\', "days": 2}
    assert call.receipt is not None
    assert call.receipt.skipped > len(PARIS) / 2
    assert f"{call.receipt.skipped} skipped" in str(call.receipt)
    assert reply.finish is FinishReason.TOOL_CALLS
    assert len(backend.requests) > 1


def test_arguments_stream_as_they_form() -> None:
    async def events() -> list[object]:
        return [event async for event in make_engine(PARIS)[0].stream(REQUEST)]

    received = asyncio.run(events())
    deltas = [event.json for event in received if isinstance(event, ArgumentsDelta)]
    assert len(deltas) > 3
    assert fold(received).calls[0].function.arguments == "".join(deltas)  # type: ignore[arg-type]


@pytest.mark.parametrize("request_number", [1, 2, 3])
def test_an_engine_that_fails_during_a_hole_leaves_no_incomplete_call(request_number: int) -> None:
    engine, backend = make_engine(PARIS, breaks_at=request_number)

    received: list[object] = []

    async def receive() -> None:
        async for event in engine.stream(REQUEST):
            received.append(event)

    with pytest.raises(EngineError, match="went away"):
        asyncio.run(receive())
    assert not any(isinstance(event, CallEnd) and event.complete for event in received)
    assert backend.running == 0


def test_closing_the_stream_during_a_hole_stops_the_backend() -> None:
    async def close_early() -> MindedGenerator:
        engine, backend = make_engine(PARIS)
        stream = engine.stream(REQUEST)
        async for event in stream:
            if isinstance(event, ArgumentsDelta):
                break
        await stream.aclose()
        return backend

    assert asyncio.run(close_early()).running == 0


def test_skipped_tokens_count_against_the_budget_and_a_call_that_is_cut_off_is_refused() -> None:
    reply = make_engine(PARIS)[0].generate(replace(REQUEST, max_tokens=60))
    assert reply.finish is FinishReason.LENGTH
    assert not reply.calls


def test_stops_of_the_request_turn_skipping_off() -> None:
    engine, backend = make_engine(PARIS)
    engine.generate(replace(REQUEST, stop=("Z",)))
    assert len(backend.requests) == 1


def test_a_receipt_says_when_the_guard_has_turned_skipping_off() -> None:
    engine, backend = make_engine(PARIS)
    # Answers that took ten times as long as without skipping.
    slow = AnswerTime(skipped=10, holes=[HoleTime(1.0, 0.01, 2) for _ in range(20)])
    for _ in range(20):
        engine._constraints.guard.add(slow)  # pyright: ignore[reportPrivateUsage]
    (call,) = engine.generate(REQUEST).calls
    assert call.receipt is not None
    assert SKIP_PAUSED in call.receipt.notes
    assert (call.receipt.skipped, len(backend.requests)) == (0, 1)


def test_what_is_appended_does_not_count_as_prompt() -> None:
    async def prompts() -> list[int]:
        prompt_tokens: list[int] = []
        for skips in (True, False):
            backend = MindedGenerator(PARIS, counts=True)
            reply = await TextEngine(backend, replace(SKIPS, skips=skips)).generate_with_tools(REQUEST)
            assert reply.usage is not None
            prompt_tokens.append(reply.usage.prompt_tokens)
        return prompt_tokens

    skipped, whole = asyncio.run(prompts())
    assert skipped == whole > 0


def test_no_more_than_the_prompt_is_said_to_come_from_the_cache() -> None:
    # The backend was asked the same before: what is appended is in its cache as well.
    engine, _ = make_engine(PARIS, counts=True)
    usage = engine.generate(REQUEST).usage
    assert usage is not None
    assert usage.cached_tokens == usage.prompt_tokens > 0


@pytest.mark.parametrize(
    "target, cost, skips",
    [
        ("lark", 2.0, True),
        ("lark", 20.0, False),
        ("lark", None, False),
        ("structural_tag", 0.5, False),
        ("gbnf", 0.5, False),
    ],
)
def test_by_default_it_skips_only_where_requests_are_cheap_and_tokenization_is_canonical(
    target: str, cost: float | None, skips: bool
) -> None:
    backend = MindedGenerator(PARIS)
    backend.traits = replace(backend.traits, targets=(target,), continuation_cost=cost)
    (call,) = TextEngine(backend, TextOptions(format="hermes")).generate(REQUEST).calls
    assert call.receipt is not None
    assert bool(call.receipt.skipped) is skips


PLAN = (
    ToolDefinition.build("plan")
    .parameter("city", {"type": "string"}, required=True)
    .parameter("alone", {"type": "boolean"})
    .parameter("budget", {"type": "integer"})
    .parameter("coach", {"type": "boolean"})
    .parameter("days", {"type": "integer"})
    .done()
)
PLANNED = '<tool_call>\n{"name": "plan", "arguments": {"city": "Paris", "coach": true}}\n</tool_call>'


@pytest.mark.parametrize("max_stops, expected", [(None, 5), (4, 0)])
def test_a_request_has_no_more_stops_than_the_engine_accepts(max_stops: int | None, expected: int) -> None:
    backend = MindedGenerator(PLANNED)
    backend.traits = replace(backend.traits, max_stops=max_stops)
    reply = TextEngine(backend, SKIPS).generate(
        replace(make_request(tools=(PLAN,), choice=ToolChoice.required()), parallel_tool_calls=False)
    )
    assert [call.arguments for call in reply.calls] == [{"city": "Paris", "coach": True}]
    # Five texts can follow the city; with fewer stops the model generates to the end of the call.
    assert max(len(writing.stop) for writing in backend.requests) == expected


def test_with_fewer_stops_than_triggers_the_engine_generates_everything() -> None:
    backend = MindedGenerator(PARIS)
    backend.traits = replace(backend.traits, max_stops=0)
    reply = TextEngine(backend, SKIPS).generate(replace(REQUEST, tool_choice=ToolChoice.auto()))
    assert len(reply.calls) == len(backend.requests) == 1
