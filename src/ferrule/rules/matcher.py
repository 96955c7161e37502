"""Match text against a grammar with llguidance. No other module imports llguidance.

`ByteMatcher` matches byte by byte, without a model's tokenizer, so that the result depends on the grammar alone.
`TokenMatcher` matches tokens of a vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ferrule.core.byte_cache import byte_cached, text_bytes
from ferrule.core.json_text import dumps
from ferrule.errors import FormatError
from ferrule.rules.vocabulary import Vocabulary

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer
    from numpy.typing import NDArray


@byte_cached(text_bytes(2))
def grammar_error(lark: str) -> str:
    """Why a grammar does not compile, in one line; "" if it compiles."""
    matcher = _matcher(lark)
    return matcher.get_error().partition("\n")[0] if matcher.is_error() else ""


def schema_error(schema: object) -> str:
    """Why llguidance's compiler refuses a JSON Schema, in one line; "" if it compiles."""
    reason = grammar_error(f"start: %json {dumps(schema)}")
    return reason.partition("failed to compile JSON schema: ")[2] or reason


@dataclass(frozen=True, slots=True)
class Match:
    """How much of a text a grammar admits. `characters` is the length of the admitted prefix."""

    characters: int
    is_complete: bool
    """Whether the whole text is admitted and may end there."""


class PrefixMatcher:
    """Matches a text that arrives in pieces: `matches` says whether a grammar still admits it as a prefix."""

    __slots__ = ("_matcher", "matches")

    def __init__(self, matcher: LLMatcher) -> None:
        self._matcher = matcher
        self.matches = True

    def feed(self, text: str) -> bool:
        """Add text; returns whether everything so far is a prefix of something that the grammar admits."""
        if self.matches and text:
            data = list(_encode(text))
            self.matches = self._matcher.try_consume_tokens(data) == len(data)
        return self.matches


class ByteMatcher:
    """A compiled grammar that can be matched against any number of texts."""

    __slots__ = ("_start",)

    def __init__(self, lark: str) -> None:
        self._start = _matcher(lark)
        if self._start.is_error():
            raise FormatError(
                f"the grammar does not compile: {self._start.get_error().partition(chr(10))[0]:.300}",
                code="bad_grammar",
                hint="Simplify the part of the schema that the message names; `ferrule explain` shows each tool.",
            )

    def prefix_matcher(self) -> PrefixMatcher:
        """A matcher for a text that arrives in pieces."""
        return PrefixMatcher(self._start.deep_copy())

    def accepts(self, text: str) -> bool:
        """Whether the grammar admits the whole text."""
        return self.match(text).is_complete

    def match(self, text: str) -> Match:
        """The longest prefix of a text that the grammar admits."""
        data = _encode(text)
        matcher = self._start.deep_copy()
        consumed = matcher.try_consume_tokens(list(data))
        is_complete = consumed == len(data) and matcher.is_accepting()
        return Match(len(data[:consumed].decode("utf-8", "ignore")), is_complete)


def _encode(text: str) -> bytes:
    """The bytes of a text: escaped bytes as they are, and half of a surrogate pair as bytes that no grammar admits."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def _matcher(lark: str) -> LLMatcher:
    from llguidance import LLMatcher

    return LLMatcher(_tokenizer(), LLMatcher.grammar_from_lark(lark), log_level=0)


@lru_cache(maxsize=1)
def _tokenizer() -> LLTokenizer:
    from llguidance import LLTokenizer

    return LLTokenizer("byte")


# How a mask is applied
#     llguidance writes one bit for each token. To set logits by a boolean index costs ten times what finding the bits
#     costs, because it visits the tokens one by one. Instead each byte of the mask selects eight upper limits from a
#     table of 256 rows: infinity for a token that may come next, minus infinity for one that cannot. The smaller of a
#     logit and its limit is the masked logit, which numpy computes for many tokens in one instruction.


@lru_cache(maxsize=8)
def _limits_of_bytes(dtype: str) -> NDArray[Any]:
    """The limits of eight tokens, for each value of a byte of the mask."""
    import numpy

    bits = numpy.unpackbits(numpy.arange(256, dtype=numpy.uint8)[:, None], axis=1, bitorder="little")
    return numpy.where(bits, numpy.inf, -numpy.inf).astype(dtype)


class TokenMatcher:
    """The state of a grammar that is being matched in the tokens of one vocabulary."""

    __slots__ = ("_buffers", "_matcher", "_size")

    def __init__(self, matcher: LLMatcher, size: int) -> None:
        self._matcher = matcher
        self._size = size
        self._buffers: tuple[NDArray[Any], NDArray[Any]] | None = None
        """For the bits and the limits: to allocate them anew for each token would cost as much as the mask."""

    def mask(self, logits: NDArray[Any]) -> None:
        """Set the logit of every token that cannot come next to minus infinity, in place.

        The last axis is the vocabulary; logits beyond it are padding.
        """
        import numpy

        dtype = logits.dtype.str
        if self._buffers is None or self._buffers[1].dtype != logits.dtype:
            count = (self._size + 31) // 32 * 4
            self._buffers = numpy.empty(count, numpy.uint8), numpy.empty((count, 8), dtype)
        bits, limits = self._buffers
        self._matcher.unsafe_compute_mask_ptr(bits.ctypes.data, bits.nbytes)
        # Every byte is a row of the table: there is nothing to check for each of them.
        numpy.take(_limits_of_bytes(dtype), bits, axis=0, out=limits, mode="clip")
        size = min(self._size, logits.shape[-1])
        known = logits[..., :size]
        numpy.minimum(known, limits.reshape(-1)[:size], out=known)
        logits[..., size:] = -numpy.inf

    @property
    def may_end(self) -> bool:
        return self._matcher.is_accepting()

    @property
    def must_end(self) -> bool:
        return self._matcher.is_stopped()

    def allowed_tokens(self) -> NDArray[Any]:
        """Which tokens may come next, as booleans by id."""
        import numpy

        bits = numpy.frombuffer(self._matcher.compute_bitmask(), dtype=numpy.uint8)
        return numpy.unpackbits(bits, bitorder="little")[: self._size].astype(bool)

    def forced_tokens(self) -> list[int]:
        return self._matcher.compute_ff_tokens()

    def take(self, token: int) -> bool:
        return self._matcher.consume_token(token)

    def rollback(self, count: int) -> None:
        self._matcher.rollback(count)

    def copy(self) -> TokenMatcher:
        return TokenMatcher(self._matcher.deep_copy(), self._size)


def compile_matcher(vocabulary: Vocabulary, lark: str) -> TokenMatcher:
    """Compile a grammar for a vocabulary. Raises `FormatError` with code `bad_grammar` if it does not compile."""
    from llguidance import LLMatcher

    matcher = LLMatcher(_tokenizer_of(vocabulary), LLMatcher.grammar_from_lark(lark), log_level=0)
    if matcher.is_error():
        reason = matcher.get_error().partition("\n")[0]
        raise FormatError(f"the grammar does not compile: {reason:.300}", code="bad_grammar")
    return TokenMatcher(matcher, len(vocabulary))


@lru_cache(maxsize=16)
def _tokenizer_of(vocabulary: Vocabulary) -> LLTokenizer:
    """The llguidance tokenizer of a vocabulary. Building it takes a second for a large one, so it is cached."""
    from llguidance import LLTokenizer, TokenizerWrapper

    return LLTokenizer(TokenizerWrapper(_LlguidanceVocabulary(vocabulary)))


class _LlguidanceVocabulary:
    """A vocabulary in the interface that llguidance expects. Special tokens begin with a byte that no text contains."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        special = {number: text for text, number in vocabulary.specials.items()}
        special.setdefault(vocabulary.end, "<|end of reply|>")
        tokens = (
            (n, b"\xff" + special[n].encode() if n in special else token) for n, token in enumerate(vocabulary.tokens)
        )
        self.tokens = [token for _, token in tokens]
        self.special_token_ids = sorted(special)
        self.eos_token_id = vocabulary.end
        self.bos_token_id = None
        self._vocabulary = vocabulary

    def __call__(self, text: bytes | str) -> list[int]:
        return self._vocabulary.encode_greedily(text.encode() if isinstance(text, str) else text)
