"""Spelling: an answer as the tokens that it was written in, while pieces of text are appended to it.

A model reads tokens, and the same text in other tokens is another context to it. So what it wrote is sent back in the
tokens that it chose, and what is appended is cut by its own tokenizer, as a matcher that forces text cuts it. Must not
know any backend: one that tells no tokens is gone on with as text.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from ferrule.rules.cache import ByteCache

Tokens = tuple[int, ...]


@dataclass(slots=True)
class Tokenizer:
    """A backend's tokenizer. None where it cannot be asked."""

    cut: Callable[[str], Awaitable[Tokens | None]]
    """A text that stands amid others."""
    cut_prompt: Callable[[str], Awaitable[Tokens | None]]
    """A whole prompt, with what the model wants before it."""
    spell: Callable[[Tokens], Awaitable[str | None]]
    _cut: ByteCache[str, tuple[Tokens | None]] = field(default_factory=lambda: ByteCache(_size_of))

    async def tokens(self, text: str) -> Tokens | None:
        """The tokens of a text, asked for once; None also where it has none that stand amid others.

        Some tokenizers put a space before every text that they are given.
        """
        if not text:
            return ()
        held = self._cut.held(text)
        if held is None:
            found = await self.cut(text)
            is_it = found is not None and await self.spell(found) == text
            held = self._cut.get(text, lambda: (found if is_it else None,))
        return held[0]


def _size_of(held: tuple[Tokens | None]) -> int:
    return 64 + 8 * len(held[0] or ())


class Spelling:
    """One answer with the prompt before it. `tokens` is None where they are not known: then the text has to do."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokens: Tokens | None = None
        self._tokenizer = tokenizer
        self._reached = ""
        """What the last token says beyond the place where the answer was stopped."""

    async def begin(self, prompt: str) -> None:
        self.tokens = await self._tokenizer.cut_prompt(prompt)

    async def append(self, text: str) -> int | None:
        """How many tokens were appended; None where nobody can tell.

        A token that reached into what is forced stays as the model chose it. One that reached further, into what is
        left for the model to choose, is taken back.
        """
        if self.tokens is None:
            return None
        if text.startswith(self._reached):
            kept, new = self.tokens, text[len(self._reached) :]
        else:
            last = await self._tokenizer.spell(self.tokens[-1:]) or ""
            kept, new = self.tokens[:-1], last.removesuffix(self._reached) + text
        self._reached = ""
        added = await self._tokenizer.tokens(new)
        self.tokens = None if added is None else (*kept, *added)
        return None if added is None else len(added)

    async def wrote(self, tokens: Sequence[int], text: str, count: int | None) -> None:
        """What the model went on with, up to a stop and with it. `count` is how many tokens it says it took."""
        if self.tokens is None:
            return
        spelled = await self._tokenizer.spell(tuple(tokens)) if len(tokens) == count else None
        if spelled is None or not spelled.startswith(text):
            # The tokens are not what was written: from here on the text has to do.
            self.tokens = None
            return
        self.tokens = (*self.tokens, *tokens)
        self._reached = spelled[len(text) :]
