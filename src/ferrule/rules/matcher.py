"""Matcher: asks llguidance, which no other file knows, whether a grammar compiles and how much of a text it admits.

Text is matched byte by byte, with no tokenizer of any model, so that what is admitted is a matter of the grammar alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ferrule.core.json_text import dumps
from ferrule.errors import FormatError
from ferrule.rules.vocabulary import Vocabulary

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer
    from numpy.typing import NDArray

_CACHED = 1_024


@lru_cache(maxsize=_CACHED)
def grammar_error(lark: str) -> str:
    """Why a grammar does not compile, in one line; empty where it does."""
    made = _matcher(lark)
    return made.get_error().partition("\n")[0] if made.is_error() else ""


def schema_error(schema: object) -> str:
    """Why llguidance's own compiler refuses a JSON Schema, in one line; empty where it takes it."""
    reason = grammar_error(f"start: %json {dumps(schema)}")
    return reason.partition("failed to compile JSON schema: ")[2] or reason


@dataclass(frozen=True, slots=True)
class Reach:
    """How far a text is admitted: `characters` of it, and whether it may end there."""

    characters: int
    is_whole: bool
    """Every character was admitted and the text may end after the last."""


class Watch:
    """Follows a text as it comes, and knows whether it is still what a grammar admits."""

    __slots__ = ("_matcher", "is_held")

    def __init__(self, matcher: LLMatcher) -> None:
        self._matcher = matcher
        self.is_held = True

    def feed(self, text: str) -> bool:
        """Whether everything so far is the beginning of something that the grammar admits."""
        if self.is_held and text:
            given = list(text.encode("utf-8", "surrogateescape"))
            self.is_held = self._matcher.try_consume_tokens(given) == len(given)
        return self.is_held


class ByteMatcher:
    """A compiled grammar, to be asked about any number of texts."""

    __slots__ = ("_start",)

    def __init__(self, lark: str) -> None:
        self._start = _matcher(lark)
        if self._start.is_error():
            raise FormatError(
                f"the grammar does not compile: {self._start.get_error().partition(chr(10))[0]:.300}",
                code="bad_grammar",
                hint="`ferrule explain` shows what the tools' schemas ask for; simplify the part that is named here.",
            )

    def watch(self) -> Watch:
        return Watch(self._start.deep_copy())

    def accepts(self, text: str) -> bool:
        return self.reach(text).is_whole

    def reach(self, text: str) -> Reach:
        """The longest admitted beginning of a text."""
        given = text.encode("utf-8", "surrogateescape")
        matcher = self._start.deep_copy()
        taken = matcher.try_consume_tokens(list(given))
        is_whole = taken == len(given) and matcher.is_accepting()
        return Reach(len(given[:taken].decode("utf-8", "ignore")), is_whole)


def _matcher(lark: str) -> LLMatcher:
    from llguidance import LLMatcher

    return LLMatcher(_tokenizer(), LLMatcher.grammar_from_lark(lark), log_level=0)


@lru_cache(maxsize=1)
def _tokenizer() -> LLTokenizer:
    from llguidance import LLTokenizer

    return LLTokenizer("byte")


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
