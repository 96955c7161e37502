"""Stops: find the first of several literals in text that is still arriving.

The leftmost match wins, then the longest. A tail that could still become a literal is held back, so the result does not
depend on where the text was split.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple


class Hit(NamedTuple):
    """The text contains no literal before `at`. `literal` is the one at `at`, or "" if none is known yet."""

    at: int
    literal: str


class Stops:
    """A set of literals to search for."""

    __slots__ = ("_by_first", "_first", "literals")

    def __init__(self, literals: Iterable[str]) -> None:
        self.literals = tuple(sorted({text for text in literals if text}, key=len, reverse=True))
        self._by_first: dict[str, tuple[str, ...]] = {}
        for text in self.literals:
            self._by_first[text[0]] = (*self._by_first.get(text[0], ()), text)
        self._first = re.compile("[" + "".join(map(re.escape, self._by_first)) + "]") if self.literals else None

    def scan(self, text: str, at: int, at_end: bool) -> Hit:
        """Find the first literal at or after `at`, or how far the text certainly contains none."""
        if self._first is None:
            return Hit(len(text), "")
        while True:
            match = self._first.search(text, at)
            if match is None:
                return Hit(len(text), "")
            at = match.start()
            literal = self._at(text, at, at_end)
            if literal is None:
                return Hit(at, "")
            if literal:
                return Hit(at, literal)
            at += 1

    def _at(self, text: str, at: int, at_end: bool) -> str | None:
        """The longest literal at `at`, "" for none, None if more text is needed to decide."""
        remaining = len(text) - at
        for literal in self._by_first[text[at]]:
            if text.startswith(literal, at):
                return literal
            if not at_end and remaining < len(literal) and literal.startswith(text[at:]):
                return None
        return ""
