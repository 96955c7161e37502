"""Skipping on a real model: the same answer in fewer generated tokens, and no incomplete calls after a failure."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, aclosing
from dataclasses import replace
from functools import partial
from random import Random

import pytest

from ferrule import ArgumentsDelta, CallEnd, ChatMessage, Event, ToolCallRequest, ToolChoice, ToolDefinition
from ferrule.bench.bfcl_requests import load_questions
from ferrule.engines.checkpoint.gguf import read_metadata, vocabulary_of
from ferrule.engines.generator import CompletionEnd, CompletionRequest, Piece
from ferrule.engines.grammar import grammar_of
from ferrule.engines.llama import facts_of_file
from ferrule.engines.llama_server import llama_server
from ferrule.engines.text.engine import TextEngine, TextOptions
from ferrule.engines.text.skip import SkipGenerator
from ferrule.engines.text.skip_guard import SkipGuard
from ferrule.errors import EngineError
from ferrule.rules.skip.steps import SkipPlan
from ferrule.rules.vocabulary import Vocabulary
from ferrule.wire.registry import get_format
from ferrule.wire.rule_builder import bind
from lab import servers
from lab.servers import QWEN
from lab.skip_costs import reply_text
from lab.skip_tokens import RecordingGenerator, comparison_of, first_difference
from laws.test_skip import generated_text
from laws.token_walks import AnsweringModel, AnswerWriter, tokenizer_of
from live.model import generator, smol

pytestmark = pytest.mark.live

FLIGHT = (
    ToolDefinition.build("book_flight")
    .parameter("from_city", {"type": "string", "minLength": 12}, required=True)
    .parameter("to_city", {"type": "string", "minLength": 12}, required=True)
    .parameter("day_of_the_week", {"type": "string", "enum": ["saturday", "sunday"]}, required=True)
    .done()
)
REQUEST = ToolCallRequest(
    messages=(ChatMessage.user("Book a flight from Genoa to Oslo on Sunday."),),
    tools=(FLIGHT,),
    tool_choice=ToolChoice.required(),
    parallel_tool_calls=False,
    max_tokens=120,
    temperature=0.0,
)


class CountingGenerator:
    """The real backend, with counts of its requests and pieces."""

    def __init__(self) -> None:
        self.requests = self.pieces = 0
        self._inner = generator()
        self.traits, self.facts, self.apply_template = self._inner.traits, self._inner.facts, self._inner.apply_template
        self.count_tokens, self.tokenize, self.detokenize = (
            self._inner.count_tokens,
            self._inner.tokenize,
            self._inner.detokenize,
        )

    async def generate(self, request: CompletionRequest) -> AsyncGenerator[Piece | CompletionEnd, None]:
        self.requests += 1
        async with aclosing(self._inner.generate(request)) as pieces:
            async for piece in pieces:
                self.pieces += isinstance(piece, Piece)
                yield piece

    async def close(self) -> None:
        return


# Questions for which a weak model once changed its answer: inside a word, after a quote, after its own tokens.
ONCE_CHANGED = frozenset({"parallel_24", "simple_python_53", "multiple_24"})


def test_the_words_are_the_same_and_most_of_them_are_not_generated() -> None:
    async def both() -> list[tuple[str, str, int, int]]:
        results: list[tuple[str, str, int, int]] = []
        for question in (
            question for n, question in enumerate(load_questions(248)) if n < 4 or question.id in ONCE_CHANGED
        ):
            request = question.request(ToolChoice.required(), 128)
            whole = await smol("hermes", skips=False).generate_with_tools(request)
            skipped = await smol("hermes", skips=True).generate_with_tools(request)
            assert whole.usage is not None
            assert skipped.usage is not None
            tokens = whole.usage.completion_tokens, skipped.usage.completion_tokens
            results.append((reply_text(whole), reply_text(skipped), *tokens))
        return results

    replies = asyncio.run(both())
    assert [whole for whole, _, _, _ in replies] == [skipped for _, skipped, _, _ in replies]
    assert sum(generated for *_, generated in replies) < 0.6 * sum(whole for _, _, whole, _ in replies)


@pytest.fixture(scope="module")
def qwen() -> RecordingGenerator:
    return RecordingGenerator(QWEN)


def test_a_model_reads_and_writes_the_same_tokens_with_and_without_skipping(qwen: RecordingGenerator) -> None:
    async def differences() -> list[tuple[str, int | None]]:
        comparison = await comparison_of("Qwen2.5-Coder-0.5B", qwen)
        results: list[tuple[str, int | None]] = []
        # A single call, and several.
        for question in load_questions(3)[::2]:
            whole, skipped = await comparison.rows(question, ("whole", "skip"))
            assert whole.output == skipped.output
            assert whole.generated > 1.3 * skipped.generated
            results.append((question.id, first_difference(whole.tokens, skipped.tokens)))
        return results

    assert {at for _, at in asyncio.run(differences())} == {None}


def test_random_answers_in_a_real_vocabulary_are_read_and_chosen_in_the_same_tokens(qwen: RecordingGenerator) -> None:
    head = vocabulary_of(read_metadata(QWEN))
    vocabulary = TokenizedVocabulary(head.tokens, head.specials, head.end)
    vocabulary.use(qwen)
    facts, writer, tokenizer = facts_of_file(QWEN), AnswerWriter(vocabulary), tokenizer_of(vocabulary)
    rng = Random(1)
    for question in load_questions(8):
        rule = bind(get_format("hermes"), question.tools, ToolChoice.required(), parallel=question.id[0] == "p")
        emit = partial(grammar_of, target="lark", facts=facts)
        answer = writer.write(emit(rule).text, rng)
        skipper = SkipGenerator(SkipPlan(rule, facts.special_tokens), emit, tokenizer, SkipGuard())
        text = generated_text(skipper, AnsweringModel(answer, vocabulary))
        assert text.startswith(vocabulary.decode(answer.tokens))


class TokenizedVocabulary(Vocabulary):
    """A vocabulary with its own tokenizer, which llama.cpp runs."""

    __slots__ = ("_generator", "_thread")

    def use(self, generator: RecordingGenerator) -> None:
        object.__setattr__(self, "_generator", generator)
        # llguidance tokenizes while an event loop runs in this thread.
        object.__setattr__(self, "_thread", ThreadPoolExecutor(1))

    def encode_greedily(self, data: bytes) -> list[int]:
        tokens = self._thread.submit(asyncio.run, self._generator.tokenize(data.decode(), is_prompt=False))
        return list(tokens.result())


@pytest.mark.parametrize("hole", [1, 2])
def test_a_client_that_disconnects_during_a_hole_stops_the_engine_and_leaves_no_incomplete_call(hole: int) -> None:
    backend = CountingGenerator()
    engine = TextEngine(backend, TextOptions(format="hermes", skips=True))

    async def leave_early() -> list[Event]:
        events_seen: list[Event] = []
        async with aclosing(engine.stream(REQUEST)) as events:
            async for event in events:
                events_seen.append(event)
                if isinstance(event, ArgumentsDelta) and backend.requests > hole:
                    break
        pieces_before = backend.pieces
        await asyncio.sleep(0.3)
        assert backend.pieces - pieces_before <= 2
        return events_seen

    received = asyncio.run(leave_early())
    assert not any(isinstance(event, CallEnd) for event in received)
    # The slot is free again, and its cache does not affect the next request.
    second_reply = asyncio.run(engine.generate_with_tools(REQUEST))
    assert [call.name for call in second_reply.calls] == ["book_flight"]


def test_an_engine_that_dies_during_a_hole_is_an_error_and_leaves_no_incomplete_call() -> None:
    request = replace(REQUEST, max_tokens=400, tools=(replace(FLIGHT, parameters=_long_parameters()),))

    async def run_until_death(url: str, server: ExitStack) -> tuple[list[Event], EngineError | None]:
        events_seen: list[Event] = []
        requests = 0
        async with llama_server(url, TextOptions(format="hermes", skips=True)) as engine:
            try:
                async for event in engine.stream(request):
                    events_seen.append(event)
                    requests += isinstance(event, ArgumentsDelta)
                    if requests == 6:
                        await asyncio.to_thread(server.close)
            except EngineError as error:
                return events_seen, error
        return events_seen, None

    with ExitStack() as server:
        url = server.enter_context(servers.llama_server(slots=1))
        events_seen, error = asyncio.run(run_until_death(url, server))
    assert error is not None
    assert error.hint
    assert not any(isinstance(event, CallEnd) and event.complete for event in events_seen)


def _long_parameters() -> dict[str, object]:
    """Parameters with a value so long that the server dies while it is generated."""
    parameters = dict(FLIGHT.parameters)
    return {**parameters, "properties": {**parameters["properties"], "to_city": {"type": "string", "minLength": 400}}}
