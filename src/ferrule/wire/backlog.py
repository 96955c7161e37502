"""Backlog: text that waits until it can be decided what it is.

A line or a block may have to be complete before it can be judged, and it may arrive in many small pieces. Looking at
all of it again for each piece takes time that grows with the square. So the reader says what it waits for, and pieces
are only collected until one of them brings it.
"""

from __future__ import annotations

import re


class Backlog:
    """Text that arrives in pieces, and a position in it: what is before `at` is dropped when more text comes."""

    __slots__ = ("_pieces", "_sought", "_tail", "_tail_size", "at", "text")

    def __init__(self) -> None:
        self.text = ""
        self.at = 0
        self._pieces: list[str] = []
        self._sought: re.Pattern[str] | None = None
        self._tail = ""
        self._tail_size = 0

    def add(self, text: str) -> bool:
        """Add text; return whether it can decide anything. Only then is it part of `text`."""
        self._pieces.append(text)
        if self._sought is not None:
            window = self._tail + text
            if self._sought.search(window) is None:
                self._tail = window[len(window) - self._tail_size :] if len(window) > self._tail_size else window
                return False
        self.join()
        return True

    def wait_for(self, pattern: re.Pattern[str], size: int = 1) -> None:
        """Decide nothing until the text contains a match, of this size, that it does not contain yet."""
        self._sought = pattern
        self._tail_size = size - 1
        self._tail = self.text[max(self.at, len(self.text) - self._tail_size) :]

    def join(self) -> None:
        """Make everything that was added part of `text`."""
        self._sought = None
        if self._pieces:
            self.text = "".join((self.text[self.at :], *self._pieces))
            self.at = 0
            self._pieces.clear()

    @property
    def has_text(self) -> bool:
        """Whether `text` contains anything at or after the position."""
        return self.at < len(self.text)
