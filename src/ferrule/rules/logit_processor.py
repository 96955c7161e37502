"""LogitProcessor: masks every token that cannot continue, for whoever holds the logits.

The rule is compiled once per vocabulary; each request has a state of its own, which can be copied and rolled back.
Works with numpy arrays in place, with a batch of requests at once, and as a Hugging Face logits processor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from ferrule.rules.lark import emit_lark
from ferrule.rules.matcher import TokenMatcher, compile_matcher
from ferrule.rules.rule import Rule
from ferrule.rules.vocabulary import Vocabulary

# A numpy array. Said by name only, so that one file alone imports numpy.
Array: TypeAlias = Any
NEVER = float("-inf")


class LogitProcessor:
    """A rule for one vocabulary. `start` gives the state of a new request."""

    def __init__(self, vocabulary: Vocabulary, rule: Rule) -> None:
        self.vocabulary = vocabulary
        self._first = compile_matcher(vocabulary, emit_lark(rule, vocabulary.specials))

    def start(self) -> RequestState:
        return RequestState(self.vocabulary, self._first.copy())


class RequestState:
    """Where one request is in its rule."""

    def __init__(self, vocabulary: Vocabulary, matcher: TokenMatcher) -> None:
        self._vocabulary = vocabulary
        self._matcher = matcher

    @property
    def may_end(self) -> bool:
        return self._matcher.may_end

    @property
    def must_end(self) -> bool:
        """Nothing but the end can follow."""
        return self._matcher.must_end

    def allowed(self) -> Array:
        """Which tokens may come next, as booleans by id."""
        return self._matcher.allowed()

    def mask(self, logits: Array) -> None:
        """Rule out, in place, every token that cannot come next. Logits beyond the vocabulary are padding."""
        allowed = self.allowed()
        size = min(len(allowed), logits.shape[-1])
        logits[..., :size][..., ~allowed[:size]] = NEVER
        logits[..., size:] = NEVER

    def forced(self) -> list[int]:
        """Tokens that must come next whatever the logits say: they need not be generated."""
        return self._matcher.forced()

    def advance(self, token: int) -> bool:
        """Take a token that was chosen; False if it was not allowed."""
        return self._matcher.take(token)

    def rollback(self, count: int) -> None:
        """Forget the last tokens, as after a speculation that failed."""
        self._matcher.rollback(count)

    def copy(self) -> RequestState:
        return RequestState(self._vocabulary, self._matcher.copy())


def mask_batch(states: Sequence[RequestState], logits: Array) -> None:
    """Mask the rows of a batch, each by the state of its request."""
    for row, state in enumerate(states):
        state.mask(logits[row])


class HuggingFaceProcessor:
    """The same as a Hugging Face `LogitsProcessor`: called with the ids so far and the scores, a row per request."""

    def __init__(self, processor: LogitProcessor) -> None:
        self._processor = processor
        self._states: list[RequestState] = []
        self._seen = 0

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        rows, length = input_ids.shape
        if not self._states:
            self._states = [self._processor.start() for _ in range(rows)]
            self._seen = length
        for row, state in enumerate(self._states):
            for token in input_ids[row, self._seen :].tolist():
                if not state.must_end:
                    state.advance(int(token))
            allowed = state.allowed()
            scores[row, : len(allowed)][~allowed] = NEVER
            scores[row, len(allowed) :] = NEVER
        self._seen = length
        return scores


NextLogits = Callable[[list[int]], Array]


def generate(
    processor: LogitProcessor, prompt: Sequence[int], next_logits: NextLogits, *, max_tokens: int, forces: bool = True
) -> tuple[list[int], bool]:
    """The tokens of one reply, the likeliest at each step, and whether the rule was satisfied within the budget.

    With `forces`, what the rule leaves no choice about is appended without asking for logits.
    """
    state = processor.start()
    written: list[int] = []
    while len(written) < max_tokens:
        if state.must_end:
            return written, True
        ahead = state.forced() if forces else []
        if not ahead:
            logits = next_logits([*prompt, *written])
            state.mask(logits)
            ahead = [int(logits.argmax())]
        for token in ahead[: max_tokens - len(written)]:
            if token == processor.vocabulary.end:
                return written, state.may_end
            state.advance(token)
            written.append(token)
    return written, state.may_end
