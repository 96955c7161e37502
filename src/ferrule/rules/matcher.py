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
    return _schema_text_error(dumps(schema))


@byte_cached(text_bytes(2))
def _schema_text_error(schema: str) -> str:
    """`schema_error` of a schema's text. Not in a Lark grammar, whose own parser takes longer than a small schema."""
    from llguidance import LLMatcher

    matcher = LLMatcher(_tokenizer(), LLMatcher.grammar_from_json_schema(schema), log_level=0)
    return matcher.get_error().partition("\n")[0] if matcher.is_error() else ""


@dataclass(frozen=True, slots=True)
class Match:
    """How much of a text a grammar admits. `characters` is the length of the admitted prefix."""

    characters: int
    is_complete: bool
    """Whether the whole text is admitted and may end there."""


def too_many_tools(why: str) -> FormatError:
    return FormatError(
        f"the grammar of this tool set is too large: {why}",
        code="grammar_too_large",
        hint="Offer fewer tools at once: the model can find others with a search, and the grammar holds those.",
    )


# llguidance counts the symbols of a grammar in 16 bits, and its lexer has a limit of its own.
_SIZE_ERRORS = ("grammar.symbols.len()", "too big")


def _refusal(error: str) -> FormatError:
    """The error of a grammar that llguidance does not compile."""
    reason = error.partition("\n")[0]
    if any(size_error in reason for size_error in _SIZE_ERRORS):
        return too_many_tools(f"{reason:.300}")
    return FormatError(
        f"the grammar does not compile: {reason:.300}",
        code="bad_grammar",
        hint="Simplify the part of the schema that the message names; `ferrule explain` shows each tool.",
    )


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
            raise _refusal(self._start.get_error())

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

    def forced_text(self, before: str) -> str:
        """The text that must follow an admitted prefix; "" if there is a choice."""
        matcher = self._start.deep_copy()
        matcher.try_consume_tokens(list(_encode(before)))
        return matcher.compute_ff_bytes().decode("utf-8", "ignore")


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
#     llguidance writes one bit for each token. To visit all tokens, by a boolean index or by an array of limits, costs
#     more than finding the bits. So 64 bits are read at once. Mostly they are all clear (one token
#     may follow) or nearly all set (any text may follow), and what is written depends on which they are:
#
#     few tokens allowed      Their logits are read, everything is set to minus infinity, and they are written back.
#     few tokens forbidden    Only their logits are written.
#     anything else           Each byte of the mask selects eight limits from a table of 256 rows: minus infinity, or
#                             not a number, which `fmin` ignores. The lower of a logit and its limit is what remains.
#
#     Inside a string or free text the same mask comes again and again. What was found from its bits is then kept.


_FEW_WORDS = 192
"""So many words with an allowed token in them, at most, are looked at one by one: more cost as much as the table."""
_FEW_BYTES = 3
"""One byte in so many may have a forbidden token in it: more cost as much as the table."""


@lru_cache(maxsize=8)
def _limits_of_bytes(dtype: str) -> NDArray[Any]:
    """The limits of eight tokens, for each value of a byte of the mask."""
    import numpy

    bits = numpy.unpackbits(numpy.arange(256, dtype=numpy.uint8)[:, None], axis=1, bitorder="little")
    return numpy.where(bits, numpy.nan, -numpy.inf).astype(dtype)


def _numbers_of_bits(data: NDArray[Any], at: NDArray[Any]) -> NDArray[Any]:
    """The numbers of the set bits in an array of bytes or words, if all of them are in the elements `at`."""
    import numpy

    shift = data.itemsize.bit_length() + 2
    set_bits = numpy.unpackbits(data[at].view(numpy.uint8), bitorder="little").view(numpy.bool_).nonzero()[0]
    return (at << shift)[set_bits >> shift] + (set_bits & (data.itemsize * 8 - 1))


class _TokenMask:
    """The tokens that may come next, in the form in which they are applied fastest."""

    __slots__ = ("_address", "_allowed", "_bits", "_forbidden", "_has_limits", "_last", "_limits", "_size", "_words")

    def __init__(self, size: int) -> None:
        import numpy

        self._size = size
        # Allocated once: to do so for each token would cost as much as the mask. Bits beyond the vocabulary stay clear.
        self._words = numpy.zeros((size + 63) // 64, numpy.uint64)
        self._bits = self._words.view(numpy.uint8)[: (size + 31) // 32 * 4]
        self._address: int = self._bits.ctypes.data
        self._last = b""
        self._allowed: NDArray[Any] | None = None
        self._forbidden: NDArray[Any] | None = None
        self._limits: NDArray[Any] | None = None
        self._has_limits = False

    def compute(self, matcher: LLMatcher) -> None:
        """Take the bits from llguidance, and find out how to apply them unless they are the same as before."""
        matcher.unsafe_compute_mask_ptr(self._address, self._bits.nbytes)
        bits = self._bits.tobytes()
        if bits == self._last:
            return
        self._last = bits
        self._allowed = self._forbidden = None
        self._has_limits = False
        words_in_use = self._words.astype(bool).nonzero()[0]
        if len(words_in_use) <= _FEW_WORDS:
            self._allowed = _numbers_of_bits(self._words, words_in_use)
            return
        forbidden_bits = ~self._bits
        bytes_in_use = forbidden_bits.astype(bool).nonzero()[0]
        if len(bytes_in_use) * _FEW_BYTES <= len(forbidden_bits):
            self._forbidden = _numbers_of_bits(forbidden_bits, bytes_in_use)

    def apply(self, logits: NDArray[Any]) -> None:
        """Set the logits of the other tokens to minus infinity."""
        import numpy

        size = min(self._size, logits.shape[-1])
        if self._allowed is not None:
            allowed = self._within(self._allowed, size)
            kept = logits[..., allowed]
            logits[...] = -numpy.inf
            logits[..., allowed] = kept
            return
        if self._forbidden is not None:
            logits[..., self._within(self._forbidden, size)] = -numpy.inf
        else:
            known = logits[..., :size]
            numpy.fmin(known, self._limits_as(logits.dtype.str)[:size], out=known)
        logits[..., size:] = -numpy.inf

    def _limits_as(self, dtype: str) -> NDArray[Any]:
        import numpy

        if self._limits is None or self._limits.dtype != dtype:
            self._limits = numpy.empty((len(self._bits), 8), dtype)
            self._has_limits = False
        if not self._has_limits:
            # Every byte is a row of the table: there is nothing to check for each of them.
            numpy.take(_limits_of_bytes(dtype), self._bits, axis=0, out=self._limits, mode="clip")
            self._has_limits = True
        return self._limits.reshape(-1)

    @staticmethod
    def _within(numbers: NDArray[Any], size: int) -> NDArray[Any]:
        return numbers if not len(numbers) or numbers[-1] < size else numbers[numbers < size]


class TokenMatcher:
    """The state of a grammar that is being matched in the tokens of one vocabulary."""

    __slots__ = ("_mask", "_matcher", "_size")

    def __init__(self, matcher: LLMatcher, size: int) -> None:
        self._matcher = matcher
        self._size = size
        self._mask: _TokenMask | None = None

    def mask(self, logits: NDArray[Any]) -> None:
        """Set the logit of every token that cannot come next to minus infinity, in place.

        The last axis is the vocabulary; logits beyond it are padding.
        """
        if self._mask is None:
            self._mask = _TokenMask(self._size)
        self._mask.compute(self._matcher)
        self._mask.apply(logits)

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
        raise _refusal(matcher.get_error())
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
