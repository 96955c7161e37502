"""Skipping on a real model: the same words in fewer tokens, and nothing half done where it ends amid a hole."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import ExitStack, aclosing
from dataclasses import replace

import pytest

from ferrule import ArgumentsDelta, CallEnd, ChatMessage, Event, ToolCallRequest, ToolChoice, ToolDefinition
from ferrule.bench.bfcl_requests import questions
from ferrule.engines.generator import Ended, Piece, Writing
from ferrule.engines.llama_server import llama_server
from ferrule.engines.text.engine import TextEngine, TextOptions
from ferrule.errors import EngineError
from lab import servers
from lab.skip_costs import words_of
from live.model import generator, smol

pytestmark = pytest.mark.live

FLIGHT = (
    ToolDefinition.build("book_flight")
    .parameter("from_city", {"type": "string", "minLength": 12}, required=True)
    .parameter("to_city", {"type": "string", "minLength": 12}, required=True)
    .parameter("day_of_the_week", {"type": "string", "enum": ["saturday", "sunday"]}, required=True)
    .done()
)
ASKED = ToolCallRequest(
    messages=(ChatMessage.user("Book a flight from Genoa to Oslo on Sunday."),),
    tools=(FLIGHT,),
    tool_choice=ToolChoice.required(),
    parallel_tool_calls=False,
    max_tokens=120,
    temperature=0.0,
)


class Watched:
    """The real backend: how many requests have begun, and how many pieces have come out of it."""

    def __init__(self) -> None:
        self.requests = self.pieces = 0
        self._inner = generator()
        self.traits, self.facts, self.templated = self._inner.traits, self._inner.facts, self._inner.templated
        self.count, self.cut, self.spelled = self._inner.count, self._inner.cut, self._inner.spelled

    async def write(self, writing: Writing) -> AsyncGenerator[Piece | Ended, None]:
        self.requests += 1
        async with aclosing(self._inner.write(writing)) as pieces:
            async for piece in pieces:
                self.pieces += isinstance(piece, Piece)
                yield piece

    async def close(self) -> None:
        return


# Where a weak model once changed its words: amid a word, at a quote and what stands behind it, after its own tokens.
ONCE_CHANGED = frozenset({"parallel_24", "simple_python_53", "multiple_24"})


def test_the_words_are_the_same_and_most_of_them_are_not_generated() -> None:
    async def both() -> list[tuple[str, str, int, int]]:
        found: list[tuple[str, str, int, int]] = []
        for question in (one for at, one in enumerate(questions(248)) if at < 4 or one.id in ONCE_CHANGED):
            request = question.request(ToolChoice.required(), 128)
            whole = await smol("hermes", skips=False).generate_with_tools(request)
            skipped = await smol("hermes", skips=True).generate_with_tools(request)
            assert whole.usage is not None
            assert skipped.usage is not None
            tokens = whole.usage.completion_tokens, skipped.usage.completion_tokens
            found.append((words_of(whole), words_of(skipped), *tokens))
        return found

    found = asyncio.run(both())
    assert [whole for whole, _, _, _ in found] == [skipped for _, skipped, _, _ in found]
    assert sum(generated for *_, generated in found) < 0.6 * sum(whole for _, _, whole, _ in found)


@pytest.mark.parametrize("hole", [1, 2])
def test_who_goes_away_amid_a_hole_stops_the_engine_and_leaves_no_half_call(hole: int) -> None:
    backend = Watched()
    engine = TextEngine(backend, TextOptions(format="hermes", skips=True))

    async def left() -> list[Event]:
        seen: list[Event] = []
        async with aclosing(engine.stream(ASKED)) as events:
            async for event in events:
                seen.append(event)
                if isinstance(event, ArgumentsDelta) and backend.requests > hole:
                    break
        at = backend.pieces
        await asyncio.sleep(0.3)
        assert backend.pieces - at <= 2
        return seen

    seen = asyncio.run(left())
    assert not any(isinstance(event, CallEnd) for event in seen)
    # The slot is free, and its cache is not in anybody's way.
    again = asyncio.run(engine.generate_with_tools(ASKED))
    assert [call.name for call in again.calls] == ["book_flight"]


def test_an_engine_that_dies_amid_a_hole_is_told_and_leaves_no_half_call() -> None:
    asked = replace(ASKED, max_tokens=400, tools=(replace(FLIGHT, parameters=_long()),))

    async def until_death(url: str, server: ExitStack) -> tuple[list[Event], EngineError | None]:
        seen: list[Event] = []
        requests = 0
        async with llama_server(url, TextOptions(format="hermes", skips=True)) as engine:
            try:
                async for event in engine.stream(asked):
                    seen.append(event)
                    requests += isinstance(event, ArgumentsDelta)
                    if requests == 6:
                        await asyncio.to_thread(server.close)
            except EngineError as told:
                return seen, told
        return seen, None

    with ExitStack() as server:
        url = server.enter_context(servers.llama_server(slots=1))
        seen, told = asyncio.run(until_death(url, server))
    assert told is not None
    assert told.hint
    assert not any(isinstance(event, CallEnd) and event.complete for event in seen)


def _long() -> dict[str, object]:
    """So long a first value that the death falls into it."""
    parameters = dict(FLIGHT.parameters)
    return {**parameters, "properties": {**parameters["properties"], "to_city": {"type": "string", "minLength": 400}}}
