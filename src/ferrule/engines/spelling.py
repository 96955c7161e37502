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
    """A backend's tokenizer, asked for each thing once. None where it cannot be asked."""

    cut: Callable[[str], Awaitable[Tokens | None]]
    """A text that stands amid others."""
    cut_prompt: Callable[[str], Awaitable[Tokens | None]]
    """A whole prompt, with what the model wants before it."""
    spell: Callable[[Tokens], Awaitable[str | None]]
    _cut: ByteCache[str, tuple[Tokens | None]] = field(default_factory=lambda: ByteCache(_size_of))
    _spelled: dict[int, str] = field(default_factory=dict[int, str])

    async def tokens(self, text: str) -> Tokens | None:
        """The tokens of a text; None also where the tokenizer has none for it that stand amid others.

        Some put a space before every text that they are given.
        """
        if not text:
            return ()
        held = self._cut.held(text)
        if held is None:
            found = await self.cut(text)
            is_it = found is not None and await self.spell(found) == text
            held = self._cut.get(text, lambda: (found if is_it else None,))
        return held[0]

    async def text(self, token: int) -> str | None:
        held = self._spelled.get(token)
        if held is None:
            held = await self.spell((token,))
            if held is not None:
                self._spelled[token] = held
        return held


def _size_of(held: tuple[Tokens | None]) -> int:
    return 64 + 8 * len(held[0] or ())


class Spelling:
    """One answer with the prompt before it. `tokens` is None where they are not known: then the text has to do."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokens: Tokens | None = None
        self._tokenizer = tokenizer
        self._cut_off = ""
        """What the last token says beyond the place where the answer was stopped."""
        self._left = ""
        """What it says up to there."""

    async def begin(self, prompt: str) -> None:
        self.tokens = await self._tokenizer.cut_prompt(prompt)

    async def append(self, text: str) -> int | None:
        """How many tokens were appended; None where nobody can tell.

        A token that reached into what is forced stays as the model chose it. One that reached further, into what is
        left for the model to choose, is taken back.
        """
        if self.tokens is None:
            return None
        reached, left = self._cut_off, self._left
        self._cut_off = self._left = ""
        kept = self.tokens
        if not text.startswith(reached):
            kept, text, reached = kept[:-1], left + text, ""
        added = await self._tokenizer.tokens(text[len(reached) :])
        self.tokens = None if added is None else (*kept, *added)
        return None if added is None else len(added)

    async def wrote(self, tokens: Sequence[int], text: str, count: int | None) -> None:
        """What the model went on with, up to a stop and with it. `count` is how many tokens it says it took."""
        if self.tokens is None:
            return
        last = await self._tokenizer.text(tokens[-1]) if tokens and len(tokens) == count else None
        length = _within(last, text) if last else 0
        if last is None or not length:
            # The tokens are not all of what was written: from here on the text has to do.
            self.tokens = None
            return
        self.tokens = (*self.tokens, *tokens)
        self._left, self._cut_off = last[:length], last[length:]


def _within(last: str, text: str) -> int:
    """How much of the last token is of the text: as much of its beginning as the text ends with."""
    return next((length for length in range(len(last), 0, -1) if text.endswith(last[:length])), 0)
