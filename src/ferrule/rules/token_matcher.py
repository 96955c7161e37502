"""TokenMatcher: llguidance's matcher over a vocabulary, behind the few questions that a mask needs answered."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ferrule.errors import FormatError
from ferrule.rules.vocabulary import Vocabulary

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer
    from numpy.typing import NDArray


class TokenMatcher:
    """A grammar under way in one vocabulary."""

    __slots__ = ("_matcher", "_size")

    def __init__(self, matcher: LLMatcher, size: int) -> None:
        self._matcher = matcher
        self._size = size

    @property
    def may_end(self) -> bool:
        return self._matcher.is_accepting()

    @property
    def must_end(self) -> bool:
        return self._matcher.is_stopped()

    def allowed(self) -> NDArray[Any]:
        """Which tokens may come next, as booleans by id."""
        import numpy

        bits = numpy.frombuffer(self._matcher.compute_bitmask(), dtype=numpy.uint8)
        return numpy.unpackbits(bits, bitorder="little")[: self._size].astype(bool)

    def forced(self) -> list[int]:
        return self._matcher.compute_ff_tokens()

    def take(self, token: int) -> bool:
        return self._matcher.consume_token(token)

    def rollback(self, count: int) -> None:
        self._matcher.rollback(count)

    def copy(self) -> TokenMatcher:
        return TokenMatcher(self._matcher.deep_copy(), self._size)


def compile_matcher(vocabulary: Vocabulary, lark: str) -> TokenMatcher:
    """Compile a grammar for a vocabulary. `FormatError` with code `bad_grammar` when it does not compile."""
    from llguidance import LLMatcher

    made = LLMatcher(_tokenizer_of(vocabulary), LLMatcher.grammar_from_lark(lark), log_level=0)
    if made.is_error():
        reason = made.get_error().partition("\n")[0]
        raise FormatError(f"the grammar does not compile: {reason:.300}", code="bad_grammar")
    return TokenMatcher(made, len(vocabulary))


@lru_cache(maxsize=16)
def _tokenizer_of(vocabulary: Vocabulary) -> LLTokenizer:
    """Building the tables of a large vocabulary takes a second, so it is done once."""
    from llguidance import LLTokenizer, TokenizerWrapper

    return LLTokenizer(TokenizerWrapper(_Wrapped(vocabulary)))


class _Wrapped:
    """A vocabulary in the shape that llguidance asks for; special tokens are marked by a byte that no text has."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        special = {number: text for text, number in vocabulary.specials.items()}
        special.setdefault(vocabulary.end, "<|end of reply|>")
        marked = (
            (n, b"\xff" + special[n].encode() if n in special else token) for n, token in enumerate(vocabulary.tokens)
        )
        self.tokens = [token for _, token in marked]
        self.special_token_ids = sorted(special)
        self.eos_token_id = vocabulary.end
        self.bos_token_id = None
        self._vocabulary = vocabulary

    def __call__(self, text: bytes | str) -> list[int]:
        return self._vocabulary.greedy(text.encode() if isinstance(text, str) else text)
