"""Marks: the texts for which some model has a token of its own, and which of them a backend's tokenizer makes one of.

Must not know any backend: each has its own way of telling tokens, and of telling special ones from others.
"""

from __future__ import annotations

from collections.abc import Iterable

from ferrule.wire.registry import formats


def all_marks() -> str:
    """The marks of every format, for a tokenizer to cut; between them stands what belongs to none."""
    return "\n".join(_marks())


def marks_among(pieces: Iterable[tuple[object, int]]) -> dict[str, int]:
    """Which of the tokens that came of it, by their texts, are marks as a whole."""
    known = set(_marks())
    return {text: token for text, token in pieces if isinstance(text, str) and text in known}


def _marks() -> list[str]:
    return sorted({token for form in formats().values() for token in form.tokens})
