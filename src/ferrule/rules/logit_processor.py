"""Mask the logits of every token that cannot come next under a rule, for code that has access to the logits.

The rule is compiled once per vocabulary. Each request has its own state, which can be copied and rolled back. Masks
apply in place to numpy arrays, to a batch of requests at once, and through a Hugging Face logits processor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from ferrule.rules.lark import emit_lark
from ferrule.rules.matcher import TokenMatcher, compile_matcher
from ferrule.rules.rule import Rule
from ferrule.rules.vocabulary import Vocabulary

# A numpy array. Typed as Any, so that only one module imports numpy.
Array: TypeAlias = Any
MASKED_LOGIT = float("-inf")


class LogitProcessor:
    """A rule compiled for one vocabulary. `start` returns the state of a new request."""

    def __init__(self, vocabulary: Vocabulary, rule: Rule) -> None:
        self.vocabulary = vocabulary
        self._initial_matcher = compile_matcher(vocabulary, emit_lark(rule, vocabulary.specials))

    def start(self) -> RequestState:
        return RequestState(self.vocabulary, self._initial_matcher.copy())


class RequestState:
    """The position of one request in its rule."""

    def __init__(self, vocabulary: Vocabulary, matcher: TokenMatcher) -> None:
        self._vocabulary = vocabulary
        self._matcher = matcher

    @property
    def may_end(self) -> bool:
        return self._matcher.may_end

    @property
    def must_end(self) -> bool:
        """Whether nothing but the end can follow."""
        return self._matcher.must_end

    def allowed_tokens(self) -> Array:
        """Which tokens may come next, as booleans by id."""
        return self._matcher.allowed_tokens()

    def mask(self, logits: Array) -> None:
        """Mask, in place, every token that cannot come next. Logits beyond the vocabulary are padding."""
        self._matcher.mask(logits)

    def forced_tokens(self) -> list[int]:
        """The tokens that must come next whatever the logits are. They need not be generated."""
        return self._matcher.forced_tokens()

    def advance(self, token: int) -> bool:
        """Consume the chosen token; returns False if it is not allowed."""
        return self._matcher.take(token)

    def rollback(self, count: int) -> None:
        """Undo the last `count` tokens, for example after a failed speculation."""
        self._matcher.rollback(count)

    def copy(self) -> RequestState:
        return RequestState(self._vocabulary, self._matcher.copy())


def mask_batch(states: Sequence[RequestState], logits: Array) -> None:
    """Mask the rows of a batch, each by the state of its request."""
    for row, state in enumerate(states):
        state.mask(logits[row])


class HuggingFaceProcessor:
    """A Hugging Face `LogitsProcessor`: called with the ids so far and the scores, one row per request."""

    def __init__(self, processor: LogitProcessor) -> None:
        self._processor = processor
        self._states: list[RequestState] = []
        self._length = 0

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        rows, length = input_ids.shape
        if not self._states:
            self._states = [self._processor.start() for _ in range(rows)]
            self._length = length
        for row, state in enumerate(self._states):
            for token in input_ids[row, self._length :].tolist():
                if not state.must_end:
                    state.advance(int(token))
            mask = state.allowed_tokens()
            scores[row, : len(mask)][~mask] = MASKED_LOGIT
            scores[row, len(mask) :] = MASKED_LOGIT
        self._length = length
        return scores


NextLogits = Callable[[list[int]], Array]


def generate(
    processor: LogitProcessor,
    prompt: Sequence[int],
    next_logits: NextLogits,
    *,
    max_tokens: int,
    append_forced: bool = True,
) -> tuple[list[int], bool]:
    """Generate one reply greedily. Returns its tokens and whether the rule was satisfied within the budget.

    With `append_forced`, tokens that the rule forces are appended without asking for logits.
    """
    state = processor.start()
    tokens: list[int] = []
    while len(tokens) < max_tokens:
        if state.must_end:
            return tokens, True
        next_tokens = state.forced_tokens() if append_forced else []
        if not next_tokens:
            logits = next_logits([*prompt, *tokens])
            state.mask(logits)
            next_tokens = [int(logits.argmax())]
        for token in next_tokens[: max_tokens - len(tokens)]:
            if token == processor.vocabulary.end:
                return tokens, state.may_end
            state.advance(token)
            tokens.append(token)
    return tokens, state.may_end
