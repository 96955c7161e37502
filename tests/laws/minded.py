"""A scripted model: it has a complete answer and continues it from wherever the prompt ends."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from ferrule.engines.generator import CompletionEnd, CompletionRequest, Piece
from ferrule.engines.text.token_text import Tokenizer
from ferrule.rules.matcher import ByteMatcher

PROMPT = "prompt: "


class Vocabulary:
    """A vocabulary that adds any text as a token when it is first used, and splits a text into short pieces."""

    def __init__(self, size: int = 3) -> None:
        self._size = size
        self._texts: list[str] = []

    def number(self, text: str) -> int:
        if text not in self._texts:
            self._texts.append(text)
        return self._texts.index(text)

    def spell(self, tokens: tuple[int, ...]) -> str:
        return "".join(self._texts[token] for token in tokens)

    @property
    def tokenizer(self) -> Tokenizer:
        return Tokenizer(self._tokenize, self._tokenize, self._detokenize)

    async def _tokenize(self, text: str) -> tuple[int, ...]:
        return tuple(self.number(text[at : at + self._size]) for at in range(0, len(text), self._size))

    async def _detokenize(self, tokens: tuple[int, ...]) -> str:
        return self.spell(tokens)


async def _nothing(_: object) -> None:
    return None


NO_TOKENIZER = Tokenizer(_nothing, _nothing, _nothing)


class ScriptedModel:
    """Continues one text, a few characters at a time, and stops as engines do: at the first stop that it writes."""

    def __init__(
        self, text: str, size: int, *, checks: bool = False, prompt: str = PROMPT, words: Vocabulary | None = None
    ) -> None:
        self._text, self._size, self._checks, self._prompt, self._words = text, size, checks, prompt, words
        self.generated = 0
        self.requests = 0
        self.read: list[tuple[int, ...]] = []
        self.wrote: list[tuple[int, ...]] = []

    async def generate(self, request: CompletionRequest) -> AsyncGenerator[Piece | CompletionEnd, None]:
        self.requests += 1
        if self._words is not None and request.is_hole:
            assert request.tokens is not None
            assert self._words.spell(request.tokens) == request.prompt, "the tokens differ from the text"
            self.read.append(request.tokens)
        answered = request.prompt.removeprefix(self._prompt)
        assert self._text.startswith(answered), "what was appended is not what the model would have written"
        remaining = self._text[len(answered) :]
        if self._checks and request.grammar is not None:
            assert ByteMatcher(request.grammar.text).accepts(remaining), f"the rest of the rule refuses {remaining!r}"
        for at in range(self._size, len(remaining) + self._size, self._size):
            stops = [(remaining[:at].find(stop), stop) for stop in request.stop if stop in remaining[:at]]
            if stops:
                end, stop = min(stops)
                self.generated += at
                ids = self._ids(remaining[:at])
                yield Piece(remaining[:end], len(ids) or 1, token_ids=ids)
                yield CompletionEnd(False, 0, len(ids) or at, matched_stop=stop)
                return
        self.generated += len(remaining)
        yield Piece(remaining, token_ids=self._ids(remaining))
        yield CompletionEnd(False, 0, len(remaining))

    def _ids(self, text: str) -> tuple[int, ...]:
        if self._words is None:
            return ()
        ids = tuple(self._words.number(text[at : at + self._size]) for at in range(0, len(text), self._size))
        self.wrote.append(ids)
        return ids
