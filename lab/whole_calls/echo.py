"""EchoGenerator: a backend that knows what it wants to write, and writes it token by token under the real mask.

It stands for a model that copies a file into a call. At each step it takes the longest token of a real vocabulary that
continues its text and that llguidance allows under the request's grammar. If none is allowed, the grammar would bend
the model away from its text: that raises.

A mask in free text takes a millisecond. It is computed where the choice between tokens needs it, and at every 32nd
token; between these llguidance's matcher is asked about the one token, which it refuses if the mask would.
"""

import re
from collections.abc import AsyncGenerator, Iterator
from functools import lru_cache
from typing import Final

from ferrule.engines.checkpoint.gguf import read_metadata, vocabulary_of
from ferrule.engines.fake import FakeGenerator
from ferrule.engines.generator import CompletionEnd, CompletionRequest, ModelFacts, Piece
from ferrule.errors import EngineError
from ferrule.formats import Format
from ferrule.rules.matcher import TokenMatcher, compile_matcher
from ferrule.rules.vocabulary import Vocabulary
from lab.servers import QWEN

TEMPLATE: Final = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
_LONGEST: Final = 16
_MASK_EVERY: Final = 32
_ENDS: Final = 200


@lru_cache(maxsize=4)
def vocabulary_for(specials: tuple[str, ...]) -> Vocabulary:
    """Qwen's tokens, and special tokens of these texts."""
    qwen = vocabulary_of(read_metadata(QWEN))
    known = {*qwen.specials.values(), qwen.end}
    plain = [b"" if number in known else token for number, token in enumerate(qwen.tokens)]
    numbers = {text: len(plain) + at for at, text in enumerate(specials)}
    return Vocabulary([*plain, *(text.encode() for text in specials), b""], numbers, len(plain) + len(specials))


def tokens_of(text: str, value: str, vocabulary: Vocabulary, matcher: TokenMatcher) -> Iterator[int]:
    """Yield the tokens with which a text is written under a grammar. Raises `EngineError` where it is forbidden.

    As tokenizers do, a token never begins before a special token's text and ends in it. Inside the value, where that
    text is no markup, it is spelt in plain tokens, as a copied file is.
    """
    data = text.encode()
    specials = {marker.encode(): number for marker, number in vocabulary.specials.items()}
    pattern = b"|".join(re.escape(marker) for marker in sorted(specials, key=len, reverse=True)) or b"(?!)"
    markers = {match.start(): match[0] for match in re.finditer(pattern, data)}
    starts = [*markers, len(data)]
    opening = data.find(value.encode())
    inside = range(opening, opening + len(value.encode())) if opening >= 0 else range(0)
    at = count = following = 0
    while at < len(data):
        while starts[following] <= at:
            following += 1
        rest = data[at : min(at + _LONGEST, starts[following])]
        plain = [(vocabulary.ids[rest[:n]], n) for n in range(len(rest), 0, -1) if rest[:n] in vocabulary.ids]
        marker = markers.get(at)
        special = [(specials[marker], len(marker))] if marker else []
        candidates = [*plain, *special] if at in inside else [*special, *plain]
        token, size = candidates[0]
        is_near_an_end = at < _ENDS or at > len(data) - _ENDS
        if is_near_an_end or marker or count % _MASK_EVERY == 0:
            allowed = matcher.allowed_tokens()
            token, size = next((each for each in candidates if allowed[each[0]]), (0, 0))
        if not size or not matcher.take(token):
            before = data[max(0, at - 40) : at].decode(errors="replace")
            raise EngineError(f"the grammar forbids {rest!r} after {before!r}", code="bent")
        at += size
        count += 1
        yield token


def admits(grammar: str, text: str, value: str, vocabulary: Vocabulary) -> bool:
    """Whether a grammar admits the whole text, which holds the value, and lets it end there."""
    matcher = compile_matcher(vocabulary, grammar)
    try:
        for _ in tokens_of(text, value, vocabulary, matcher):
            pass
    except EngineError:
        return False
    return matcher.may_end


class EchoGenerator(FakeGenerator):
    """Writes `text`, a call with `value`, in answer to every request, and keeps the last request's grammar."""

    def __init__(self, format: Format) -> None:
        self.vocabulary = vocabulary_for(tuple(format.tokens))
        super().__init__([], ModelFacts(template=TEMPLATE, special_tokens=self.vocabulary.specials))
        self.text = ""
        self.value = ""
        self.grammar = ""
        self.tokens = 0

    async def generate(self, request: CompletionRequest) -> AsyncGenerator[Piece | CompletionEnd, None]:
        assert request.grammar is not None
        self.grammar = request.grammar.text
        matcher = compile_matcher(self.vocabulary, self.grammar)
        names = {number: text.encode() for text, number in self.vocabulary.specials.items()}
        held = b""
        self.tokens = 0
        for token in tokens_of(self.text, self.value, self.vocabulary, matcher):
            if self.tokens == request.max_tokens:
                yield CompletionEnd(True, 1, self.tokens)
                return
            self.tokens += 1
            held += names.get(token, self.vocabulary.tokens[token])
            try:
                text, held = held.decode(), b""
            except UnicodeDecodeError:
                continue
            yield Piece(text)
        yield CompletionEnd(not matcher.may_end, 1, self.tokens)
