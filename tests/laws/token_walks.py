"""Random answers in the tokens of one vocabulary, and a model that writes such an answer wherever skipping lets it.

A model that reads the same tokens and chooses among the same tokens writes the same answer. So the model here checks
both at each of its tokens, against the answer that was written without skipping.
"""

from __future__ import annotations

import random
import re
from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass
from typing import Any

import numpy
from numpy.typing import NDArray

from ferrule.engines.generator import CompletionEnd, CompletionRequest, Piece
from ferrule.engines.text.token_text import Tokenizer
from ferrule.rules.matcher import compile_matcher
from ferrule.rules.vocabulary import Vocabulary

PROMPT = "prompt: "
# Tokens of real vocabularies that end a value and begin what follows it, or span the punctuation between two.
_PUNCTUATION = """
" { } [ ] , : < > - "] "], ", "} }} "}} "}, ": ":" "," ", :[ [" {" ]} "]} </ >< << /> ": '] ', .", ).", ,, "" \\", \\"
"""
_WORDS = "name arguments get weather city days unit celsius Paris tags query search true false null function tool call"


def handmade_vocabulary(markers: tuple[str, ...]) -> Vocabulary:
    """Every byte, words with and without a space, punctuation that spans the end of a value, and a format's markers."""
    punctuation = _PUNCTUATION.split()
    texts = [
        *markers,
        *punctuation,
        *(f" {text}" for text in punctuation),
        *(f"{text}\n" for text in ("}", "}}", '"}', '"}}', ">", "\n")),
        *(f"{space}{word}" for word in _WORDS.split() for space in ("", " ", '"', "_")),
    ]
    tokens = dict.fromkeys([*(bytes([byte]) for byte in range(256)), *(text.encode() for text in texts)])
    return Vocabulary([*tokens, b"<end>"], {"<end>": len(tokens)}, len(tokens))


def tokenizer_of(vocabulary: Vocabulary) -> Tokenizer:
    async def tokenize(text: str) -> tuple[int, ...]:
        return tuple(vocabulary.encode_greedily(text.encode()))

    async def detokenize(tokens: tuple[int, ...]) -> str:
        return vocabulary.decode(tokens)

    return Tokenizer(tokenize, tokenize, detokenize)


@dataclass(frozen=True, slots=True)
class Answer:
    """The tokens of an answer, and for each the tokens that were allowed in its place."""

    tokens: tuple[int, ...]
    allowed: tuple[NDArray[Any], ...]


def answer_in(vocabulary: Vocabulary, grammar: str, texts: Iterable[str]) -> Answer:
    """The answer that consists of these tokens."""
    matcher = compile_matcher(vocabulary, grammar)
    tokens, allowed = list[int](), list[NDArray[Any]]()
    for text in texts:
        allowed.append(matcher.allowed_tokens())
        tokens.append(vocabulary.ids[text.encode()])
        assert allowed[-1][tokens[-1]], f"{text!r} is not allowed after {vocabulary.decode(tokens[:-1])!r}"
        assert matcher.take(tokens[-1])
    return Answer(tuple(tokens), tuple(allowed))


class AnswerWriter:
    """Writes random answers under a grammar. Half of the tokens are punctuation, so that values are short."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        texts = [token.decode("utf-8", "replace") for token in vocabulary.tokens]
        self._plain = numpy.array([(text.isascii() and text.isprintable()) or text.strip() == "" for text in texts])
        self._words = self._plain & numpy.array([bool(re.fullmatch(r"\W?[a-zA-Z]+", text)) for text in texts])
        self._ends = self._plain & numpy.array([bool(re.search(r'["\]}>]', text)) for text in texts])

    def write(self, grammar: str, rng: random.Random, at_most: int = 120) -> Answer:
        matcher = compile_matcher(self._vocabulary, grammar)
        tokens, allowed = list[int](), list[NDArray[Any]]()
        while len(tokens) < at_most and not matcher.must_end:
            allowed.append(matcher.allowed_tokens())
            tokens.append(self._choose(allowed[-1], rng))
            assert matcher.take(tokens[-1])
            if tokens[-1] == self._vocabulary.end:
                break
        return Answer(tuple(tokens), tuple(allowed))

    def _choose(self, allowed: NDArray[Any], rng: random.Random) -> int:
        if allowed[self._vocabulary.end] and rng.random() < 0.5:
            return self._vocabulary.end
        preferred = rng.choice((self._ends, self._ends, self._words, self._plain))
        for kind in (preferred, self._plain):
            choices = numpy.flatnonzero(allowed & kind)
            if len(choices):
                return int(rng.choice(choices))
        return int(rng.choice(numpy.flatnonzero(allowed)))


class AnsweringModel:
    """Continues an answer token by token and stops as engines do: after the token that completes a stop."""

    def __init__(self, answer: Answer, vocabulary: Vocabulary) -> None:
        self._answer, self._vocabulary = answer, vocabulary
        self._prompt = tuple(vocabulary.encode_greedily(PROMPT.encode()))

    async def generate(self, request: CompletionRequest) -> AsyncGenerator[Piece | CompletionEnd, None]:
        assert request.grammar is not None
        assert request.tokens is not None
        tokens, vocabulary = self._answer.tokens, self._vocabulary
        read = request.tokens[len(self._prompt) :]
        at = next((at for at, (one, two) in enumerate(zip(read, tokens, strict=False)) if one != two), len(read))
        before, texts = self._texts(tokens[max(at - 6, 0) : at]), (self._texts(read[at:]), self._texts(tokens[at:][:6]))
        assert at == len(read), f"the model reads {texts[0]} instead of {texts[1]} after {before}"
        matcher = compile_matcher(vocabulary, request.grammar.text)
        written = list[int]()
        for at in range(len(read), len(tokens)):
            different = numpy.flatnonzero(matcher.allowed_tokens() != self._answer.allowed[at])
            before = self._texts(tokens[max(at - 6, 0) : at])
            assert not self._texts(different), f"the model chooses among other tokens after {before}"
            written.append(tokens[at])
            if tokens[at] == vocabulary.end:
                break
            assert matcher.take(tokens[at])
            text = vocabulary.decode(written)
            stops = [(text.find(stop), stop) for stop in request.stop if stop in text]
            if stops:
                end, stop = min(stops)
                yield Piece(text[:end], len(written), token_ids=tuple(written))
                yield CompletionEnd(False, 0, len(written), matched_stop=stop)
                return
        yield Piece(vocabulary.decode(written), len(written), token_ids=tuple(written))
        yield CompletionEnd(tokens[-1] != vocabulary.end, 0, len(written))

    def _texts(self, tokens: Any) -> list[str]:
        return [self._vocabulary.decode([int(token)]) or "<end>" for token in tokens]
