"""TokenText: an answer as token ids, while text is generated for it and appended to it.

A model reads tokens, and the same text in other tokens is another context. So text that the model generated is sent
back in the tokens that it chose, and appended text is tokenized by the model's own tokenizer, as a matcher that forces
text does. A backend that does not report token ids gets text instead. Must not know any backend.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from sys import getsizeof

from ferrule.core.byte_cache import ENTRY_BYTES, ByteCache

Tokens = tuple[int, ...]


@dataclass(slots=True)
class Tokenizer:
    """A backend's tokenizer. Its functions return None if the backend has no tokenizer API."""

    tokenize: Callable[[str], Awaitable[Tokens | None]]
    """Tokenizes a text from the middle of a longer one."""
    tokenize_prompt: Callable[[str], Awaitable[Tokens | None]]
    """Tokenizes a whole prompt, with the tokens that the model expects at its start."""
    detokenize: Callable[[Tokens], Awaitable[str | None]]
    _cache: ByteCache[str, tuple[Tokens | None]] = field(default_factory=lambda: ByteCache(_size_of))

    async def tokens(self, text: str) -> Tokens | None:
        """Return the tokens of a text, from the cache after the first time.

        None also if the tokens do not spell the text exactly: some tokenizers put a space before every text.
        """
        if not text:
            return ()
        cached = self._cache.lookup(text)
        if cached is None:
            token_ids = await self.tokenize(text)
            is_exact = token_ids is not None and await self.detokenize(token_ids) == text
            cached = self._cache.get(text, lambda: (token_ids if is_exact else None,))
        return cached[0]

    def clear(self) -> None:
        """Drop the cached tokens."""
        self._cache.cache_clear()


def _size_of(text: str, cached: tuple[Tokens | None]) -> int:
    # A place in the tuple and, above 256, an integer object.
    return ENTRY_BYTES + getsizeof(text) + 40 * len(cached[0] or ())


class TokenText:
    """The tokens of a prompt and its answer. `tokens` is None if they are unknown; the backend then gets text."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokens: Tokens | None = None
        self._tokenizer = tokenizer
        self._untokenized = ""
        """The beginning of a token that was removed: it is tokenized again with the text that is appended next."""

    async def start(self, prompt: str) -> None:
        self.tokens = await self._tokenizer.tokenize_prompt(prompt)

    async def append(self, text: str) -> int | None:
        """Append forced text and return the number of tokens that it added; None if unknown."""
        if self.tokens is None:
            return None
        added = await self._tokenizer.tokens(self._untokenized + text)
        self._untokenized = ""
        self.tokens = None if added is None else (*self.tokens, *added)
        return None if added is None else len(added)

    async def add_generated(self, tokens: Sequence[int], text: str, count: int | None) -> str:
        """Add generated text, including its stop, and return what its last token spells beyond the stop.

        `count` is the number of tokens that the backend reports for the text.
        """
        if self.tokens is None:
            return ""
        written = await self._tokenizer.detokenize(tuple(tokens)) if len(tokens) == count else None
        if written is None or not written.startswith(text):
            # The reported tokens do not spell the text, so the rest of the answer is sent as text.
            self.tokens = None
            return ""
        self.tokens = (*self.tokens, *tokens)
        return written[len(text) :]

    async def remove_end(self, text: str) -> None:
        """Remove a text that the last token ends with, and the token with it."""
        if self.tokens is not None and text:
            last = await self._tokenizer.detokenize(self.tokens[-1:]) or ""
            self.tokens, self._untokenized = self.tokens[:-1], last.removesuffix(text)
