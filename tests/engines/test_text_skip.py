"""Forced text is appended and the rest generated: the same events, receipts, budgets and endings as without."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any

import pytest

from engines.tools import PING, PLAIN_TEMPLATE, WEATHER, asked
from ferrule import ArgumentsDelta, CallEnd, EngineError, FinishReason, ToolChoice, ToolDefinition, fold
from ferrule.engines.fake import FakeGenerator
from ferrule.engines.generator import Ended, ModelFacts, Piece, Writing
from ferrule.engines.text.engine import TextEngine, TextOptions
from ferrule.engines.text.skip_guard import PAUSED, AnswerTime, HoleTime
from laws.minded import Minded, Vocabulary

PARIS = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris \\"x\\" \\\\", "days": 2}}\n</tool_call>'
SKIPS = TextOptions(format="hermes", skips=True)
REQUEST = replace(asked(tools=(WEATHER, PING), choice=ToolChoice.required()), parallel_tool_calls=False)


class MindedGenerator(FakeGenerator):
    """A backend with one answer in mind; `breaks_at` is the number of the request that fails in its middle."""

    def __init__(self, text: str, *, size: int = 2, breaks_at: int = 0, counts: bool = False) -> None:
        super().__init__([], ModelFacts(template=PLAIN_TEMPLATE))
        self.text, self.size, self.breaks_at = text, size, breaks_at
        self.prompt = ""
        self.running = 0
        self.counts = counts
        # Here a character is a token.
        self.words = Vocabulary(1)

    async def cut(self, text: str, *, is_prompt: bool) -> tuple[int, ...] | None:
        return await self.words.tokenizer.cut(text)

    async def spelled(self, tokens: tuple[int, ...]) -> str | None:
        return self.words.spell(tokens)

    async def write(self, writing: Writing) -> AsyncGenerator[Piece | Ended, None]:
        self.asked.append(writing)
        if not self.prompt:
            appended = next(n for n in range(len(self.text), -1, -1) if writing.prompt.endswith(self.text[:n]))
            self.prompt = writing.prompt[: len(writing.prompt) - appended]
        minded = Minded(self.text, self.size, prompt=self.prompt, words=self.words)
        self.running += 1
        try:
            async for piece in minded.write(writing):
                await asyncio.sleep(0)
                if len(self.asked) == self.breaks_at:
                    raise EngineError("the engine went away")
                is_counted = self.counts and isinstance(piece, Ended)
                yield replace(piece, prompt_tokens=len(writing.prompt)) if is_counted else piece
        finally:
            self.running -= 1


def made(text: str, **options: Any) -> tuple[TextEngine, MindedGenerator]:
    backend = MindedGenerator(text, **options)
    return TextEngine(backend, SKIPS), backend


def test_the_reply_is_the_same_and_the_receipt_tells_what_was_skipped() -> None:
    engine, backend = made(PARIS)
    reply = engine.generate(REQUEST)
    (call,) = reply.calls
    assert call.arguments == {"city": 'Paris "x" \\', "days": 2}
    assert call.receipt is not None
    assert call.receipt.skipped > len(PARIS) / 2
    assert f"{call.receipt.skipped} skipped" in str(call.receipt)
    assert reply.finish is FinishReason.TOOL_CALLS
    assert len(backend.asked) > 1


def test_arguments_stream_as_they_form() -> None:
    async def events() -> list[object]:
        return [event async for event in made(PARIS)[0].stream(REQUEST)]

    heard = asyncio.run(events())
    deltas = [event.json for event in heard if isinstance(event, ArgumentsDelta)]
    assert len(deltas) > 3
    assert fold(heard).calls[0].function.arguments == "".join(deltas)  # type: ignore[arg-type]


@pytest.mark.parametrize("request_number", [1, 2, 3])
def test_an_engine_that_fails_amid_a_hole_leaves_no_half_call(request_number: int) -> None:
    engine, backend = made(PARIS, breaks_at=request_number)

    heard: list[object] = []

    async def hear() -> None:
        async for event in engine.stream(REQUEST):
            heard.append(event)

    with pytest.raises(EngineError, match="went away"):
        asyncio.run(hear())
    assert not any(isinstance(event, CallEnd) and event.complete for event in heard)
    assert backend.running == 0


def test_closing_the_stream_amid_a_hole_stops_the_backend() -> None:
    async def closed() -> MindedGenerator:
        engine, backend = made(PARIS)
        stream = engine.stream(REQUEST)
        async for event in stream:
            if isinstance(event, ArgumentsDelta):
                break
        await stream.aclose()
        return backend

    assert asyncio.run(closed()).running == 0


def test_what_is_skipped_takes_from_the_budget_and_a_call_that_it_cuts_off_is_not_handed_on() -> None:
    reply = made(PARIS)[0].generate(replace(REQUEST, max_tokens=60))
    assert reply.finish is FinishReason.LENGTH
    assert not reply.calls


def test_stops_of_the_request_turn_skipping_off() -> None:
    engine, backend = made(PARIS)
    engine.generate(replace(REQUEST, stop=("Z",)))
    assert len(backend.asked) == 1


def test_a_receipt_says_where_the_guard_has_switched_skipping_off() -> None:
    engine, backend = made(PARIS)
    # Answers that took ten times as long as they would have whole.
    slow = AnswerTime(skipped=10, holes=[HoleTime(1.0, 0.01, 2) for _ in range(20)])
    for _ in range(20):
        engine._rules.guard.add(slow)  # pyright: ignore[reportPrivateUsage]
    (call,) = engine.generate(REQUEST).calls
    assert call.receipt is not None
    assert PAUSED in call.receipt.notes
    assert (call.receipt.skipped, len(backend.asked)) == (0, 1)


def test_what_is_appended_does_not_count_as_prompt() -> None:
    async def prompts() -> list[int]:
        found: list[int] = []
        for skips in (True, False):
            backend = MindedGenerator(PARIS, counts=True)
            reply = await TextEngine(backend, replace(SKIPS, skips=skips)).generate_with_tools(REQUEST)
            assert reply.usage is not None
            found.append(reply.usage.prompt_tokens)
        return found

    skipped, whole = asyncio.run(prompts())
    assert skipped == whole > 0


@pytest.mark.parametrize(
    "target, price, skips",
    [
        ("lark", 2.0, True),
        ("lark", 20.0, False),
        ("lark", None, False),
        ("structural_tag", 0.5, False),
        ("gbnf", 0.5, False),
    ],
)
def test_unasked_it_skips_only_where_going_on_is_cheap_and_forced_text_has_one_spelling(
    target: str, price: float | None, skips: bool
) -> None:
    backend = MindedGenerator(PARIS)
    backend.traits = replace(backend.traits, targets=(target,), going_on=price)
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


@pytest.mark.parametrize("most, longest", [(None, 5), (4, 0)])
def test_an_engine_is_asked_to_stop_at_no_more_texts_than_it_takes(most: int | None, longest: int) -> None:
    backend = MindedGenerator(PLANNED)
    backend.traits = replace(backend.traits, stops=most)
    reply = TextEngine(backend, SKIPS).generate(
        replace(asked(tools=(PLAN,), choice=ToolChoice.required()), parallel_tool_calls=False)
    )
    assert [call.arguments for call in reply.calls] == [{"city": "Paris", "coach": True}]
    # What follows the city is one of five; with fewer stops the model writes on to the end of the call.
    assert max(len(writing.stop) for writing in backend.asked) == longest


def test_an_engine_that_takes_fewer_stops_than_a_rule_has_triggers_writes_on_by_itself() -> None:
    backend = MindedGenerator(PARIS)
    backend.traits = replace(backend.traits, stops=0)
    reply = TextEngine(backend, SKIPS).generate(replace(REQUEST, tool_choice=ToolChoice.auto()))
    assert len(reply.calls) == len(backend.asked) == 1
