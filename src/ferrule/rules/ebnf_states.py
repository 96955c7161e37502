"""Text without forbidden words, as the states of an automaton: what a grammar without complements is given.

A state is a mode (inside a string, after its backslash, ...) and as much of the text so far as could still become a
forbidden word. Must not know how states are written down.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from ferrule.schema.notation import Escapes


@dataclass(frozen=True, slots=True)
class Step:
    """From a mode, one of `chars` (or, negated, any other character) leads to the mode `to`; to "" is the end."""

    chars: str
    to: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Arrow:
    """From a state, one of `chars` (or, negated, any other character) leads to a state by its number, or to the end."""

    chars: str
    negated: bool
    to: int | None


Modes: TypeAlias = tuple[tuple[str, tuple[Step, ...]], ...]

_CONTROLS = "".join(map(chr, range(0x20)))
_HEX = "0123456789abcdefABCDEF"
_HEX_DIGITS: Modes = (
    ("hex4", (Step(_HEX, "hex3"),)),
    ("hex3", (Step(_HEX, "hex2"),)),
    ("hex2", (Step(_HEX, "hex1"),)),
    ("hex1", (Step(_HEX, "body"),)),
)
_AFTER_BACKSLASH = {
    Escapes.JSON: (Step('"\\/bfnrt', "body"), Step("u", "hex4")),
    Escapes.PYTHON: (Step("\"'\\abfnrtv", "body"), Step("x", "hex2"), Step("u", "hex4")),
}


def plain_stops(close: str) -> str:
    """The characters that do not stand for themselves in a string with escapes."""
    return close + "\\" + _CONTROLS


def text_modes(not_first: str) -> Modes:
    """Any text, but for its first character."""
    return (("first", (Step(not_first, "body", negated=True),)), ("body", (Step("", "body", negated=True),)))


def string_modes(close: str, escapes: Escapes) -> Modes:
    """The inside of a string and the quote that ends it."""
    body = (Step(close, ""), Step("\\", "escape"), Step(plain_stops(close), "body", negated=True))
    return (("body", body), ("escape", _AFTER_BACKSLASH[escapes]), *_HEX_DIGITS)


def shortest(words: Iterable[str]) -> tuple[str, ...]:
    """The words that hold no other: text without these is without all of them."""
    known = tuple(dict.fromkeys(words))
    return tuple(word for word in known if not any(other in word for other in known if other != word))


@lru_cache(maxsize=256)
def states_of(modes: Modes, forbidden: tuple[str, ...], end: str = "", before: str = "") -> list[tuple[Arrow, ...]]:
    """The arrows of every state that can be reached, the first state first.

    `before` is text that has been written already. With `end`, the text ends where that is complete.
    """
    tail = _Tail(shortest(forbidden), end)
    steps = dict(modes)
    first = (modes[0][0], tail.of(before))
    numbers = {first: 0}
    reached = [first]
    states: list[tuple[Arrow, ...]] = []
    for mode, held in reached:
        arrows: list[Arrow] = []
        for target, chars, negated in _arrows(steps[mode], held, tail):
            if target is not None and target not in numbers:
                numbers[target] = len(numbers)
                reached.append(target)
            arrows.append(Arrow(chars, negated, None if target is None else numbers[target]))
        states.append(tuple(arrows))
    return states


class _Tail:
    """Remembers as much of a text as could become a forbidden word, or the text that ends it."""

    def __init__(self, forbidden: tuple[str, ...], end: str) -> None:
        self._forbidden, self._end = forbidden, end
        words = (*forbidden, end)
        self._beginnings = {"", *(word[:size] for word in words for size in range(len(word)))}
        self.letters = frozenset("".join(words))

    def ends(self, held: str, char: str) -> bool:
        return bool(self._end) and (held + char).endswith(self._end)

    def after(self, held: str, char: str) -> str | None:
        """What to remember next; None where a forbidden word would be complete."""
        text = held + char
        if text.endswith(self._forbidden):
            return None
        while text not in self._beginnings:
            text = text[1:]
        return text

    def of(self, text: str) -> str:
        held = ""
        for char in text:
            held = self.after(held, char) or ""
        return held


_State: TypeAlias = tuple[str, str]


def _arrows(steps: tuple[Step, ...], held: str, tail: _Tail) -> list[tuple[_State | None, str, bool]]:
    """Where the text may go from a state: each place with the characters that lead there."""
    found: dict[_State | None, str] = {}
    others: list[tuple[_State | None, str, bool]] = []
    for step in steps:
        for char in sorted(tail.letters):
            if (char in step.chars) is step.negated:
                continue
            after = tail.after(held, char)
            if tail.ends(held, char):
                found[None] = found.get(None, "") + char
            elif after is not None:
                target = (step.to, after) if step.to else None
                found[target] = found.get(target, "") + char
        rest = tail.letters.union(step.chars) if step.negated else set(step.chars) - tail.letters
        if rest or step.negated:
            others.append(((step.to, "") if step.to else None, "".join(sorted(rest)), step.negated))
    return [*((target, chars, False) for target, chars in found.items()), *others]
