"""Marks: texts for which some model has a token of its own, and which of them a backend's tokenizer makes one of.

Calls are written between some of them, and others end a turn. Must not know any backend: each has its own way of
telling tokens, and of telling special ones from others.
"""

from __future__ import annotations

from collections.abc import Iterable

from ferrule.wire.registry import formats

Cut = tuple[object, int]
"""A token that a text was cut into: what it spells, and its number. Some spell no text."""


def all_marks() -> str:
    """The marks of every format, for a tokenizer to cut; between them stands what belongs to none."""
    return "\n".join(sorted(_marks() | _ends()))


def marks_among(pieces: Iterable[Cut]) -> dict[str, int]:
    """Those of the tokens that came of it with which calls are written, by their texts."""
    return _among(pieces, _marks())


def ends_among(pieces: Iterable[Cut]) -> tuple[int, ...]:
    """Those with which some model ends its turn."""
    return tuple(_among(pieces, _ends()).values())


def _among(pieces: Iterable[Cut], texts: frozenset[str]) -> dict[str, int]:
    return {text: token for text, token in pieces if isinstance(text, str) and text in texts}


def _marks() -> frozenset[str]:
    return frozenset(token for form in formats().values() for token in form.tokens)


def _ends() -> frozenset[str]:
    return frozenset(stop for form in formats().values() for stop in form.stops)
