"""Skipping: an answer whose forced text is appended to the prompt, so that the backend generates only what is free.

To whoever reads it, it is one continuation like any other: pieces, then an end. The backend's prefix cache makes going
on cheap. Must not know any backend or any format.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from ferrule.engines.generator import Ended, Grammar, Piece, Writing
from ferrule.engines.text.skip_guard import AnswerTime, HoleTime, SkipGuard
from ferrule.engines.text.token_text import Spelling, Tokenizer
from ferrule.errors import EngineError
from ferrule.rules.cache import ByteCache
from ferrule.rules.rule import Rule
from ferrule.rules.skip.hole_ends import WORTH
from ferrule.rules.skip.position import Position
from ferrule.rules.skip.steps import Plan, Step

Write = Callable[[Writing], AsyncGenerator[Piece | Ended, None]]
Steps = ByteCache[tuple[Plan, str], "Held"]
"""What is held for every step, by its plan and the way to it. One for all rules of a backend: many ways lead through a
rule with many choices, and each has a grammar nearly as large as the whole."""
# Where a backend cannot be asked: what a token of English and JSON is on average.
_CHARACTERS_A_TOKEN = 4
# A step shares most of its nodes with the rule.
_STEP_SIZE = 2_048


def worth_of(going_on: float | None) -> int:
    """How many forced characters pay for one more request, where one costs as much as so many tokens."""
    return WORTH if going_on is None else max(WORTH, round(going_on * _CHARACTERS_A_TOKEN))


@dataclass(frozen=True, slots=True)
class Held:
    """A step and the grammar of its hole, which is None where there is no hole, or where it is the whole rule's."""

    step: Step
    grammar: Grammar | None

    @property
    def size(self) -> int:
        return _STEP_SIZE + (len(self.grammar.text) if self.grammar else 0)


def held_steps() -> Steps:
    return ByteCache(lambda held: held.size)


@dataclass(slots=True)
class Skipper:
    """The plan of one rule on one backend."""

    plan: Plan
    emit: Callable[[Rule], Grammar]
    tokenizer: Tokenizer
    guard: SkipGuard
    """One for all rules of a backend, as its tokenizer: what a request costs is the backend's, and not the rule's."""
    steps: Steps = field(default_factory=held_steps)

    async def write(self, write: Write, writing: Writing) -> AsyncGenerator[Piece | Ended, None]:
        """The same text as one continuation would give, in fewer tokens and more requests."""
        spent = _Spent(writing.max_tokens)
        place = self.plan.begun()
        text = ""
        spelling = Spelling(self.tokenizer)
        await spelling.begin(writing.prompt)
        while True:
            held = await self._step(place)
            step = held.step
            skipped = await spelling.append(step.forced)
            if step.forced:
                skipped = -(-len(step.forced) // _CHARACTERS_A_TOKEN) if skipped is None else skipped
                spent.time.skipped += skipped
                text += step.forced
                yield Piece(step.forced, 0, skipped)
            if step.rule is None or spent.left <= 0:
                self.guard.add(spent.time)
                yield spent.ended(is_cut_off=step.rule is not None)
                return
            hole = replace(
                writing,
                prompt=writing.prompt + text,
                tokens=spelling.tokens,
                grammar=held.grammar or writing.grammar,
                stop=step.ends,
                max_tokens=spent.left,
                is_hole=True,
            )
            written, heard, ended = "", list[int](), Ended(True)
            tokens = 0
            timing = _Timing()
            async with aclosing(write(hole)) as pieces:
                async for piece in pieces:
                    timing.heard()
                    if isinstance(piece, Ended):
                        ended = piece
                        break
                    written += piece.text
                    heard += piece.ids
                    tokens += piece.tokens
                    yield piece
            spent.add(ended, timing)
            if ended.stopped_by not in step.ends:
                self.guard.add(spent.time)
                yield spent.ended(is_cut_off=ended.is_cut_off)
                return
            # The tokens that the stop stood in were never told as pieces.
            yield Piece(ended.stopped_by, max((ended.completion_tokens or 0) - tokens, 0))
            written += ended.stopped_by
            text += written
            await spelling.wrote(heard, written, ended.completion_tokens)
            # A stop amid a string, behind a backslash, is no end of it.
            found = step.hole.after(written) or step.hole.within(written)
            if found is None:
                raise EngineError(
                    f"the engine wrote what its grammar does not admit: {written[-60:]!r}",
                    code="grammar_lost",
                    hint="Ask again; where it happens again, turn skipping off for this engine.",
                )
            place = found

    async def _step(self, place: Position) -> Held:
        key = (self.plan, place.way)
        held = self.steps.held(key)
        if held is None:
            # It takes long enough to hold up everybody else.
            made = await asyncio.to_thread(self._made, place)
            held = self.steps.get(key, lambda: made)
        return held

    def _made(self, place: Position) -> Held:
        step = self.plan.step(place)
        if step.rule is None or step.rule is self.plan.rule:
            return Held(step, None)
        # What was written is followed by the whole rule's matcher, and by one only.
        return Held(step, replace(self.emit(step.rule), watch=None))


class _Timing:
    """When the pieces of one request came."""

    def __init__(self) -> None:
        self._asked = self._last = time.monotonic()
        self._first: float | None = None

    def heard(self) -> None:
        self._last = time.monotonic()
        self._first = self._last if self._first is None else self._first

    def of(self, tokens: int) -> HoleTime:
        first = self._last if self._first is None else self._first
        return HoleTime(first - self._asked, self._last - first, tokens)


@dataclass(slots=True)
class _Spent:
    """What an answer has taken so far. Skipped tokens take from the budget like any other: the answer is as long."""

    budget: int
    generated: int = 0
    prompt: int | None = None
    cached: int | None = None
    time: AnswerTime = field(default_factory=AnswerTime)

    @property
    def left(self) -> int:
        return self.budget - self.generated - self.time.skipped

    def add(self, ended: Ended, timing: _Timing) -> None:
        self.generated += ended.completion_tokens or 0
        self.time.holes.append(timing.of(ended.completion_tokens or 0))
        if self.prompt is None and ended.prompt_tokens is not None:
            # What was appended before the first hole is of the answer, and not of the prompt.
            self.prompt, self.cached = ended.prompt_tokens - self.time.skipped, ended.cached_tokens

    def ended(self, *, is_cut_off: bool) -> Ended:
        return Ended(is_cut_off, self.prompt, self.generated, self.cached)
