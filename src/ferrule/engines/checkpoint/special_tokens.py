"""Special tokens: finds which markers of our formats are single tokens of a model, and which parts of any text are.

Some of them delimit calls, others end a turn. Must not know any backend: each reports tokens, and which of them are
special, in its own way.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable

from ferrule.wire.registry import all_formats

TokenPiece = tuple[object, int]
"""A token of a text: what it spells, and its id. Some tokens spell only part of a character."""

# A token that begins and ends with punctuation and has a letter or digit between. Tokenizers split ordinary text before
# such a token can form, so it was added to the vocabulary as a whole.
_ADDED = re.compile(r"[^\w\s].*[^\W_].*[^\w\s]", re.DOTALL)


def special_token_texts() -> str:
    """Return the markers and stops of every format as one text for a tokenizer, separated by newlines."""
    return "\n".join(sorted(_call_texts() | _stop_texts()))


def call_tokens_among(pieces: Iterable[TokenPiece]) -> dict[str, int]:
    """Return those of the tokens that delimit calls, by their texts."""
    return _matching_tokens(pieces, _call_texts())


def end_tokens_among(pieces: Iterable[TokenPiece]) -> tuple[int, ...]:
    """Return those of the tokens that end a turn."""
    return tuple(_matching_tokens(pieces, _stop_texts()).values())


def is_added_token(text: str) -> bool:
    """Whether a token of a vocabulary is no ordinary text, by its form alone."""
    return bool(_ADDED.fullmatch(text))


def special_texts_among(pieces: Iterable[object], text: str) -> frozenset[str]:
    """Return those of a text's tokens that are special. Each piece is what one of the tokens spells."""
    return frozenset(piece for piece in pieces if isinstance(piece, str) and is_added_token(piece) and piece in text)


def finder_of(special: Iterable[str]) -> Callable[[str], Awaitable[frozenset[str]]]:
    """Return a function that finds these texts in a text, also those that begin inside of another."""
    pattern = re.compile("|".join(map(re.escape, sorted(filter(None, special), key=len, reverse=True))) or "(?!)")

    def matches(text: str) -> frozenset[str]:
        found: set[str] = set()
        at = 0
        while match := pattern.search(text, at):
            found.add(match.group())
            at = match.start() + 1
        return frozenset(found)

    async def find(text: str) -> frozenset[str]:
        return await asyncio.to_thread(matches, text)

    return find


def _matching_tokens(pieces: Iterable[TokenPiece], texts: frozenset[str]) -> dict[str, int]:
    return {text: token for text, token in pieces if isinstance(text, str) and text in texts}


def _call_texts() -> frozenset[str]:
    return frozenset(token for form in all_formats().values() for token in form.tokens)


def _stop_texts() -> frozenset[str]:
    return frozenset(stop for form in all_formats().values() for stop in form.stops)
