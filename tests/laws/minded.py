"""A model that has a whole answer in mind, and goes on with it wherever it is asked to."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from ferrule.engines.generator import Ended, Piece, Writing
from ferrule.engines.text.token_text import Tokenizer
from ferrule.rules.matcher import ByteMatcher

PROMPT = "prompt: "


class Vocabulary:
    """Any text becomes a token once somebody writes it; a text is cut into pieces of a few letters."""

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
        return Tokenizer(self._cut, self._cut, self._spelled)

    async def _cut(self, text: str) -> tuple[int, ...]:
        return tuple(self.number(text[at : at + self._size]) for at in range(0, len(text), self._size))

    async def _spelled(self, tokens: tuple[int, ...]) -> str:
        return self.spell(tokens)


async def _nothing(_: object) -> None:
    return None


NO_TOKENIZER = Tokenizer(_nothing, _nothing, _nothing)


class Minded:
    """Writes on with one text, a few characters at a time, and stops as engines do: at the first stop that it wrote."""

    def __init__(
        self, text: str, size: int, *, checks: bool = False, prompt: str = PROMPT, words: Vocabulary | None = None
    ) -> None:
        self._text, self._size, self._checks, self._prompt, self._words = text, size, checks, prompt, words
        self.generated = 0
        self.requests = 0
        self.read: list[tuple[int, ...]] = []
        self.wrote: list[tuple[int, ...]] = []

    async def write(self, writing: Writing) -> AsyncGenerator[Piece | Ended, None]:
        self.requests += 1
        if self._words is not None and writing.is_hole:
            assert writing.tokens is not None
            assert self._words.spell(writing.tokens) == writing.prompt, "the tokens say something else than the text"
            self.read.append(writing.tokens)
        written = writing.prompt.removeprefix(self._prompt)
        assert self._text.startswith(written), "what was appended is not what the model would have written"
        left = self._text[len(written) :]
        if self._checks and writing.grammar is not None:
            assert ByteMatcher(writing.grammar.text).accepts(left), f"the rest of the rule refuses {left!r}"
        for at in range(self._size, len(left) + self._size, self._size):
            places = [(left[:at].find(stop), stop) for stop in writing.stop if stop in left[:at]]
            if places:
                end, stop = min(places)
                self.generated += at
                ids = self._ids(left[:at])
                yield Piece(left[:end], len(ids) or 1, ids=ids)
                yield Ended(False, 0, len(ids) or at, stopped_by=stop)
                return
        self.generated += len(left)
        yield Piece(left, ids=self._ids(left))
        yield Ended(False, 0, len(left))

    def _ids(self, text: str) -> tuple[int, ...]:
        if self._words is None:
            return ()
        ids = tuple(self._words.number(text[at : at + self._size]) for at in range(0, len(text), self._size))
        self.wrote.append(ids)
        return ids
