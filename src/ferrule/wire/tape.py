"""Tape: text that is still arriving, with the primitive operations that the parser needs on it.

Methods that may need more text are generators: they yield each time they run out, and the caller feeds the tape and
resumes them. After `hold`, consumed text can be rewound, for openings that turn out to be prose.

No operation may cost more than the text that it consumes: a feed can hold megabytes and thousands of openings, and
whatever looks at the rest of the feed at each opening takes time that grows with the square. So names and ids are
looked for within `MAX_NAME` characters, and going back within one feed copies nothing.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Generator, Iterable
from functools import lru_cache
from typing import NamedTuple, TypeAlias, TypeVar

T = TypeVar("T")
Walk: TypeAlias = Generator[None, None, T]

_SPACE = re.compile(r"[ \t\r\n]*")
_NAME = re.compile(r"[^\s\"'()\[\]{}<>,;=|`]*")
_KEY = re.compile(r"[A-Za-z0-9_]*")
MAX_NAME = 256


class MisfitError(Exception):
    """Internal: the model's text does not fit the current node. Never leaves the parser."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


class DepthError(MisfitError):
    """Internal: the model's text is nested deeper than anything is read."""


class Tape:
    """The text of one reply, and a position in it. Consumed text is discarded unless it is held."""

    __slots__ = ("_base", "_held", "_held_from", "_ran_out", "at", "ended", "text")

    def __init__(self) -> None:
        self.text = ""
        self.at = 0
        self.ended = False
        self._base = 0
        self._ran_out = False
        self._held: list[str] | None = None
        self._held_from = 0

    def feed(self, text: str) -> None:
        if self._held is not None:
            self._held.append(self.text[self._held_from : self.at])
            self._held_from = 0
        self._base += self.at
        self.text = self.text[self.at :] + text if self.at < len(self.text) else text
        self.at = 0

    @property
    def position(self) -> int:
        """How many characters of the whole text were consumed."""
        return self._base + self.at

    def hold(self) -> None:
        """From here on, consumed text can be rewound."""
        self._held = []
        self._held_from = self.at
        self._ran_out = False

    @property
    def is_cut(self) -> bool:
        """Whether the text has ended while more was expected."""
        return self.ended and (self._ran_out or self.at >= len(self.text))

    @property
    def held_size(self) -> int:
        """How many characters were consumed since `hold`."""
        return sum(map(len, self._held or ())) + self.at - self._held_from

    def held_text(self) -> str:
        """The text consumed since `hold`."""
        return "".join((*(self._held or ()), self.text[self._held_from : self.at]))

    def release(self) -> None:
        self._held = None

    def rewind(self, to: int) -> None:
        """Go back to `to` characters after the position of `hold`."""
        if self._held:
            read = self.held_text()
            self._base = self.position - len(read)
            self.text = read + self.text[self.at :]
            self._held = []
            self._held_from = 0
        self.at = self._held_from + to

    def peek(self, spellings: tuple[str, ...]) -> Walk[int]:
        """The size of the longest spelling at this position, or -1. Consumes nothing."""
        while True:
            text, at = self.text, self.at
            remaining = len(text) - at
            best = -1
            is_open = False
            for spelling in spellings:
                if text.startswith(spelling, at):
                    best = max(best, len(spelling))
                elif remaining < len(spelling) and spelling.startswith(text[at:]):
                    is_open = True
            if not is_open or self.ended:
                self._ran_out = self._ran_out or is_open
                return best
            yield

    def space(self) -> Walk[str]:
        """Consume and return all white space at this position."""
        pieces: list[str] = []
        while True:
            match = _SPACE.match(self.text, self.at)
            end = match.end() if match else self.at
            if end > self.at:
                pieces.append(self.text[self.at : end])
                self.at = end
            if self.at < len(self.text) or self.ended:
                return "".join(pieces)
            yield

    def char(self) -> Walk[str]:
        """The next character, or "" at the end. Consumes nothing."""
        while self.at >= len(self.text):
            if self.ended:
                return ""
            yield
        return self.text[self.at]

    def name_follows(self) -> Walk[bool]:
        """Whether a name can begin at this position."""
        char = yield from self.char()
        match = _NAME.match(char)
        return bool(match and match.end())

    def key(self) -> Walk[str]:
        """Consume a key without quotes."""
        return (yield from self._run(_KEY, "a key"))

    def name(self) -> Walk[str]:
        """Consume a tool's name: everything up to the first character that names cannot contain."""
        return (yield from self._run(_NAME, "a tool's name"))

    def _run(self, pattern: re.Pattern[str], what: str) -> Walk[str]:
        pieces: list[str] = []
        size = 0
        while True:
            match = pattern.match(self.text, self.at, self.at + MAX_NAME + 1 - size)
            end = match.end() if match else self.at
            if end > self.at:
                pieces.append(self.text[self.at : end])
                size += end - self.at
                self.at = end
            if size > MAX_NAME:
                raise MisfitError(f"{what} is too long")
            if self.at < len(self.text):
                break
            if self.ended:
                break
            yield
        if not size:
            raise MisfitError(f"expected {what}")
        return "".join(pieces)

    def until(self, stops: Stops, what: str) -> Walk[str]:
        """Consume and return the text before the first of these literals, which is at most `MAX_NAME` characters."""
        size = 0
        while True:
            hit = stops.scan(self.text, self.at + size, self.ended, self.at + MAX_NAME + 1)
            size = hit.at - self.at
            if size > MAX_NAME:
                raise MisfitError(f"{what} is too long")
            if hit.literal:
                text = self.text[self.at : hit.at]
                self.at = hit.at
                return text
            if self.ended:
                raise MisfitError(f"the text ends in {what}")
            yield


# Stops: find the first of several literals in text that is still arriving.
#
# The leftmost match wins, then the longest. A tail that could still become a literal is held back, so the result does
# not depend on where the text was split.


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

    def scan(self, text: str, at: int, at_end: bool, end: int = sys.maxsize) -> Hit:
        """Find the first literal that begins at or after `at` and before `end`.

        Without one, say how far the text certainly contains none.
        """
        if self._first is None:
            return Hit(min(len(text), end), "")
        while True:
            match = self._first.search(text, at, end)
            if match is None:
                return Hit(min(len(text), end), "")
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


@lru_cache(maxsize=1024)
def stops_for(literals: tuple[str, ...]) -> Stops:
    """The `Stops` of these literals. Cached: calls ask for the same few again and again."""
    return Stops(literals)
