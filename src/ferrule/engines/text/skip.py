"""Skip: appends text that the grammar forces to the prompt, so that the backend generates only the rest.

**The problem.** Most of a tool call under a grammar is forced: the markers around the call, the names of the arguments,
the punctuation, often the tool's name. A backend generates this text token by token although there is nothing to
choose. A backend with a prompt cache reads appended text much faster than it generates it.

**The method.** `rules.skip` splits an answer into steps. A step is a forced text and then a hole, the part that the
model chooses. `SkipGenerator` appends the forced text to the prompt, sends a request for the hole, adds what came back,
and continues with the next step. To its caller the result is one continuation like any other: pieces, then an end. The
receipt says how many tokens were skipped, and they count against the token limit as if they had been generated.

**Why the answer stays the same.** The model must choose every token in the same context and among the same alternatives
as without skipping:

- A hole is generated under the rest of the whole grammar, not under a small grammar for one value. So tokens that reach
  beyond the end of the value are allowed as before.
- Stop strings end a hole, not the grammar. They are the texts that show how the answer continues: `",` or `"}` after a
  string, the character after a number, the letter in which two tool names differ. The stop is part of the forced text.
  A stop after a backslash, inside of a string, does not end it: the hole then continues with the rest of the string.
- The model's last token stays as it is, also if it reaches beyond the stop: the step after it begins where the token
  ends. Only a token that ends inside of a value other than a string is removed and generated again.
- Forced text ends at token boundaries. It never ends in a space, because tokenizers write a space as the beginning of
  the next word, and a marker that is one token of the vocabulary is never split (`rules.skip.token_boundary`).
- Tokens that the model generated are sent back as token ids (`token_text`). The same text in other tokens is another
  context: a model that wrote `"` and `,` continues differently than after `",`. Appending text to text, which is still
  done for backends without token ids, changes a word in two or three of a hundred calls of a weak model.

**What depends on the backend.** Forced text can be split into tokens in several ways. llguidance allows only the
tokenizer's own way, so with it the model reads the same tokens. xgrammar and GBNF allow all ways, and a later choice
that was close may differ. The call is valid either way, but there skipping is off by default
(`grammar.CANONICAL_TOKEN_TARGETS`).

**When it pays.** Each hole is one more request. About eight tokens are forced between two values, so skipping is on by
default only if a request costs at most six tokens (`Traits.continuation_cost`). `min_forced_length` keeps the plan from
interrupting a hole for less text than a request costs, and `SkipGuard` turns skipping off while it saves no time.

Values without a certain end (arrays, free objects, unions), and holes with more ends than the backend accepts stop
strings (`Traits.max_stops`), are generated to the end of the call. Must not know any backend or any format.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from ferrule.core.byte_cache import ByteCache
from ferrule.engines.generator import CompletionEnd, CompletionRequest, Grammar, Piece
from ferrule.engines.text.skip_guard import AnswerTime, HoleTime, SkipGuard
from ferrule.engines.text.token_text import Tokenizer, TokenText
from ferrule.errors import EngineError
from ferrule.rules.rule import Rule
from ferrule.rules.skip.hole_ends import MIN_FORCED_CHARACTERS
from ferrule.rules.skip.position import Position
from ferrule.rules.skip.steps import SkipPlan, Step

Generate = Callable[[CompletionRequest], AsyncGenerator[Piece | CompletionEnd, None]]
StepCache = ByteCache[tuple[SkipPlan, str], "SkipStep"]
"""Steps by their plan and the path to them: a rule with many choices has many paths, and the grammar of each is nearly
as large as the whole grammar."""
# The average length of a token of English and JSON, for backends without a tokenizer API.
_CHARACTERS_PER_TOKEN = 4
# In bytes, an estimate: a step shares most of its nodes with the rule.
_STEP_SIZE = 2_048


def min_forced_length(continuation_cost: float | None) -> int:
    """Return how many forced characters are worth one more request, given its cost in tokens."""
    return (
        MIN_FORCED_CHARACTERS
        if continuation_cost is None
        else max(MIN_FORCED_CHARACTERS, round(continuation_cost * _CHARACTERS_PER_TOKEN))
    )


@dataclass(frozen=True, slots=True)
class SkipStep:
    """A step and the grammar of its hole; None if there is no hole or if it is the grammar of the whole rule."""

    step: Step
    grammar: Grammar | None

    @property
    def size(self) -> int:
        return _STEP_SIZE + (len(self.grammar.text) if self.grammar else 0)


def new_step_cache() -> StepCache:
    return ByteCache(lambda key, cached: len(key[1]) + cached.size)


@dataclass(slots=True)
class SkipGenerator:
    """Generates answers under one rule on one backend, skipping forced text."""

    plan: SkipPlan
    emit: Callable[[Rule], Grammar]
    tokenizer: Tokenizer
    guard: SkipGuard
    """Shared by all rules of a backend, like its tokenizer: the cost of a request depends on the backend alone."""
    steps: StepCache = field(default_factory=new_step_cache)

    async def generate(
        self, complete: Generate, request: CompletionRequest
    ) -> AsyncGenerator[Piece | CompletionEnd, None]:
        """Yield the text that a single continuation would give, in fewer tokens and more requests."""
        cost = _AnswerCost(request.max_tokens)
        position = self.plan.start()
        text = ""
        token_text = TokenText(self.tokenizer)
        if request.tokens is None:
            await token_text.start(request.prompt)
        else:
            token_text.tokens = request.tokens
        while True:
            skip_step = await self._cached_step(position)
            step = skip_step.step
            skipped = await token_text.append(step.forced_text)
            if step.forced_text:
                skipped = -(-len(step.forced_text) // _CHARACTERS_PER_TOKEN) if skipped is None else skipped
                cost.time.skipped += skipped
                text += step.forced_text
                yield Piece(step.forced_text, 0, skipped)
            if step.rule is None or cost.remaining <= 0:
                self.guard.add(cost.time)
                yield cost.completion_end(is_cut_off=step.rule is not None)
                return
            hole = replace(
                request,
                prompt=request.prompt + text,
                tokens=token_text.tokens,
                grammar=skip_step.grammar or request.grammar,
                stop=step.ends,
                max_tokens=cost.remaining,
                is_hole=True,
            )
            hole_text, token_ids, end = "", list[int](), CompletionEnd(True)
            tokens = 0
            timer = _RequestTimer()
            async with aclosing(complete(hole)) as pieces:
                async for piece in pieces:
                    timer.record_piece()
                    if isinstance(piece, CompletionEnd):
                        end = piece
                        break
                    hole_text += piece.text
                    token_ids += piece.token_ids
                    tokens += piece.tokens
                    yield piece
            cost.add(end, timer)
            if end.matched_stop not in step.ends:
                self.guard.add(cost.time)
                yield cost.completion_end(is_cut_off=end.is_cut_off)
                return
            hole_text += end.matched_stop
            overhang = await token_text.add_generated(token_ids, hole_text, end.completion_tokens)
            # The model's last token may reach beyond the stop. It stays whole, unless it ends inside of a value.
            position_after = step.hole.advance(hole_text + overhang)
            if position_after is None:
                await token_text.remove_end(overhang)
                overhang = ""
                position_after = step.hole.advance(hole_text)
            if position_after is None:
                raise EngineError(
                    f"the engine wrote text that its grammar does not allow: {hole_text[-60:]!r}",
                    code="grammar_lost",
                    hint="Try again. If it happens again, set skips=False for this engine.",
                )
            position = position_after
            text += hole_text + overhang
            # The tokens that contain the stop were not reported as pieces.
            yield Piece(end.matched_stop + overhang, max((end.completion_tokens or 0) - tokens, 0))

    async def _cached_step(self, position: Position) -> SkipStep:
        key = (self.plan, position.path)
        cached = self.steps.lookup(key)
        if cached is None:
            # Building a step takes long enough to block the event loop.
            built = await asyncio.to_thread(self._build_step, position)
            cached = self.steps.get(key, lambda: built)
        return cached

    def _build_step(self, position: Position) -> SkipStep:
        step = self.plan.step(position)
        if step.rule is None or step.rule is self.plan.rule:
            return SkipStep(step, None)
        # The watcher of the whole grammar already follows the text, so the steps need none.
        return SkipStep(step, replace(self.emit(step.rule), make_watcher=None))


class _RequestTimer:
    """Records when the pieces of one request arrive."""

    def __init__(self) -> None:
        self._started = self._last = time.monotonic()
        self._first: float | None = None

    def record_piece(self) -> None:
        self._last = time.monotonic()
        self._first = self._last if self._first is None else self._first

    def hole_time(self, tokens: int) -> HoleTime:
        first = self._last if self._first is None else self._first
        return HoleTime(first - self._started, self._last - first, tokens)


@dataclass(slots=True)
class _AnswerCost:
    """What an answer has cost so far. Skipped tokens count against the token limit, because the answer is as long."""

    budget: int
    generated: int = 0
    prompt: int | None = None
    cached: int | None = None
    time: AnswerTime = field(default_factory=AnswerTime)

    @property
    def remaining(self) -> int:
        return self.budget - self.generated - self.time.skipped

    def add(self, end: CompletionEnd, timer: _RequestTimer) -> None:
        self.generated += end.completion_tokens or 0
        self.time.holes.append(timer.hole_time(end.completion_tokens or 0))
        if self.prompt is None and end.prompt_tokens is not None:
            # Text that was appended before the first hole belongs to the answer, not to the prompt. An engine that
            # was asked the same before has that text in its cache too.
            self.prompt = end.prompt_tokens - self.time.skipped
            self.cached = None if end.cached_tokens is None else min(end.cached_tokens, self.prompt)

    def completion_end(self, *, is_cut_off: bool) -> CompletionEnd:
        return CompletionEnd(is_cut_off, self.prompt, self.generated, self.cached)
