"""Stops: find the first of several literals in a text that is still arriving.

Leftmost wins, then longest. A tail that could still become a literal is held back, so where the text is cut never
changes what is found.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple


class Hit(NamedTuple):
    """Text is free of literals up to `at`; there `found` stands, or "" when nothing is known yet."""

    at: int
    found: str


class Stops:
    __slots__ = ("_by_first", "_first", "literals")

    def __init__(self, literals: Iterable[str]) -> None:
        self.literals = tuple(sorted({text for text in literals if text}, key=len, reverse=True))
        self._by_first: dict[str, tuple[str, ...]] = {}
        for text in self.literals:
            self._by_first[text[0]] = (*self._by_first.get(text[0], ()), text)
        self._first = re.compile("[" + "".join(map(re.escape, self._by_first)) + "]") if self.literals else None

    def scan(self, text: str, at: int, at_end: bool) -> Hit:
        """Where the first literal stands at or after `at`, or how far the text is surely free of them."""
        if self._first is None:
            return Hit(len(text), "")
        while True:
            match = self._first.search(text, at)
            if match is None:
                return Hit(len(text), "")
            at = match.start()
            found = self._at(text, at, at_end)
            if found is None:
                return Hit(at, "")
            if found:
                return Hit(at, found)
            at += 1

    def _at(self, text: str, at: int, at_end: bool) -> str | None:
        """The longest literal at `at`, "" for none, None when more text is needed to tell."""
        left = len(text) - at
        for literal in self._by_first[text[at]]:
            if text.startswith(literal, at):
                return literal
            if not at_end and left < len(literal) and literal.startswith(text[at:]):
                return None
        return ""
