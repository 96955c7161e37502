"""Automata for text that must not contain certain strings, as tables that a target without such a notion can write out.

Every state lists its moves by sets of characters, so a target needs no more than character classes and rules that end
in another rule. What a string or free text may hold is said here alone; a target only spells the states. Must not know
any target.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Generic, TypeVar

from ferrule.rules.rule import Chars, Prose, Str, Until
from ferrule.schema.notation import Escapes, Quote

_State = TypeVar("_State", bound=Hashable)


class _Left(Enum):
    LEFT = "the text is complete"


_LEFT = _Left.LEFT


@dataclass(frozen=True, slots=True)
class Move:
    """One character leads to a state by its number; a target of None ends the text."""

    chars: Chars
    target: int | None


@dataclass(frozen=True, slots=True)
class Automaton:
    """Moves of each state, the first one being where it begins; `may_stop` are states where the text may end."""

    moves: tuple[tuple[Move, ...], ...]
    may_stop: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class _Plan(Generic[_State]):
    """`step` gives the state after a character (None is any that is not in `alphabet`), or None if it may not come."""

    begin: _State
    step: Callable[[_State, str | None], _State | _Left | None]
    alphabet: frozenset[str]
    stops: bool = False


@dataclass(frozen=True, slots=True)
class _Watch:
    """Follows text and tells which of the strings were just completed. A state is the longest beginning in sight."""

    strings: tuple[str, ...]
    beginnings: frozenset[str]

    @staticmethod
    def over(strings: tuple[str, ...], end: str = "") -> _Watch:
        kept = shortest(strings, end)
        return _Watch(kept, frozenset(text[:size] for text in kept for size in range(len(text) + 1)) | {""})

    def step(self, seen: str, char: str | None) -> tuple[str, int]:
        """What is in sight now, and the length of the longest string that ends here."""
        if char is None:
            return "", 0
        seen += char
        while seen not in self.beginnings:
            seen = seen[1:]
        return seen, max((len(text) for text in self.strings if seen.endswith(text)), default=0)


def shortest(strings: Iterable[str], end: str = "") -> tuple[str, ...]:
    """The strings that hold no other: text without these is without all of them.

    With `end`, which text goes up to, also those that hold another only as the end does: they may begin before it.
    """
    known = tuple(dict.fromkeys(filter(None, strings)))
    return tuple(text for text in known if not _comes_too_late(text, known, end))


def _comes_too_late(text: str, strings: tuple[str, ...], end: str) -> bool:
    """Whether everything is decided before this string is complete: by the end, or by a string inside of it."""
    if end and end in text[:-1]:
        return True
    return any(other != text and other in text and other not in end for other in strings)


@lru_cache(maxsize=512)
def prose_automaton(node: Prose) -> Automaton:
    """Text with none of the excluded strings in it; it may stop anywhere."""
    watch = _Watch.over(node.excludes)
    alphabet = frozenset("".join(node.excludes) + node.not_first)

    def step(state: tuple[str, int, bool], char: str | None) -> tuple[str, int, bool] | None:
        seen, taken, is_first = state
        seen, length = watch.step(seen, char)
        is_refused = length or (is_first and char is not None and char in node.not_first)
        if is_refused or taken == node.at_most:
            return None
        return seen, taken + (node.at_most is not None), False

    return _built(_Plan(("", 0, bool(node.not_first)), step, alphabet, stops=True))


@lru_cache(maxsize=512)
def until_automaton(node: Until) -> Automaton:
    """Text up to and including the first end. An excluded string may stand inside of the end, and nowhere else.

    A state is what is in sight, how much text was taken (None: no more text, the end must come), how far each end that
    may have begun has come, and whether nothing was read yet.
    """
    end = node.end
    watch = _Watch.over(node.excludes, end)

    def step(
        state: tuple[str, int | None, frozenset[int], bool], char: str | None
    ) -> tuple[str, int | None, frozenset[int], bool] | _Left | None:
        seen, taken, begun, is_first = state
        seen, length = watch.step(seen, char)
        tried = begun if taken is None else begun | {0}
        begun = frozenset(at + 1 for at in tried if end[at] == char and at + 1 >= length)
        if len(end) in begun:
            return _LEFT
        is_refused = length or (is_first and char is not None and char in node.not_first)
        if taken is not None:
            taken = None if is_refused or taken == node.at_most else taken + (node.at_most is not None)
        return None if taken is None and not begun else (seen, taken, begun, False)

    begin = ("", 0, frozenset[int](), bool(node.not_first))
    return _built(_Plan(begin, step, frozenset("".join(node.excludes) + node.not_first + end)))


_HEX = frozenset(string.hexdigits)
_CONTROL = frozenset(map(chr, range(0x20)))
_PLAIN = {Escapes.JSON: '"\\/bfnrt', Escapes.PYTHON: "\"'\\abfnrtv"}
# What may follow a backslash, by how far the escape has come: characters and the next place, "" where it is complete.
# A high surrogate needs its low one, so that what was written is always text.
_UNICODE: dict[str, list[tuple[frozenset[str], str]]] = {
    "u": [(_HEX - set("dD"), "3"), (frozenset("dD"), "d")],
    "d": [(frozenset("01234567"), "2"), (frozenset("89abAB"), "high 2")],
    "high 2": [(_HEX, "high 1")],
    "high 1": [(_HEX, "low \\")],
    "low \\": [(frozenset("\\"), "low u")],
    "low u": [(frozenset("u"), "low d")],
    "low d": [(frozenset("dD"), "low c")],
    "low c": [(frozenset("cdefCDEF"), "2")],
    "3": [(_HEX, "2")],
    "2": [(_HEX, "1")],
    "1": [(_HEX, "")],
}
_AFTER_BACKSLASH = {
    Escapes.JSON: {"\\": [(frozenset(_PLAIN[Escapes.JSON]), ""), (frozenset("u"), "u")], **_UNICODE},
    Escapes.PYTHON: {
        "\\": [(frozenset(_PLAIN[Escapes.PYTHON]), ""), (frozenset("u"), "u"), (frozenset("x"), "2")],
        **_UNICODE,
    },
}


def _written(quote: Quote, place: str, char: str | None) -> str | None:
    """How far a character of a string has come after `char`: "" is complete, None is not possible."""
    if place:
        options = _AFTER_BACKSLASH[quote.escapes][place]
        return next((then for chars, then in options if char is not None and char in chars), None)
    if char is None or char not in _CONTROL | {"\\", quote.close}:
        return ""
    return "\\" if char == "\\" else None


def _string_alphabet(quote: Quote) -> frozenset[str]:
    return _CONTROL | _HEX | frozenset(_PLAIN[quote.escapes]) | frozenset("\\ux" + quote.close)


@lru_cache(maxsize=16)
def character_automaton(quote: Quote) -> Automaton:
    """One character of a string in these quotes, as itself or as an escape."""

    def step(place: str, char: str | None) -> str | _Left | None:
        then = _written(quote, place, char)
        return _LEFT if then == "" else then

    return _built(_Plan("", step, _string_alphabet(quote)))


@lru_cache(maxsize=512)
def string_automaton(node: Str) -> Automaton:
    """What follows the opening quote, up to and including the closing one, with no excluded string in what is written.

    An escape is one character of the string; what it is written with counts as text for the excluded strings.
    """
    watch = _Watch.over(node.excludes)
    counted = node.at_least if node.at_most is None else node.at_most

    def step(state: tuple[str, int, str], char: str | None) -> tuple[str, int, str] | _Left | None:
        seen, taken, place = state
        seen, length = watch.step(seen, char)
        if length:
            return None
        if not place and char == node.quote.close:
            return _LEFT if taken >= node.at_least else None
        then = _written(node.quote, place, char)
        if then is None or (not place and taken == node.at_most):
            return None
        return seen, min(counted, taken + (not place)), then

    seen = ""
    for char in node.quote.open:
        seen, _ = watch.step(seen, char)
    return _built(_Plan((seen, 0, ""), step, _string_alphabet(node.quote) | frozenset("".join(node.excludes))))


def _built(plan: _Plan[_State]) -> Automaton:
    """Every state that can be reached and from which the text can end, numbered in the order of finding them."""
    symbols = [None, *sorted(plan.alphabet)]
    found: list[_State] = [plan.begin]
    known: set[_State] = {plan.begin}
    steps: dict[_State, dict[str | None, _State | _Left]] = {}
    for state in found:
        steps[state] = {}
        for symbol in symbols:
            then = plan.step(state, symbol)
            if then is None:
                continue
            steps[state][symbol] = then
            if not isinstance(then, _Left) and then not in known:
                known.add(then)
                found.append(then)
    useful = found if plan.stops else _useful(found, steps)
    numbers = {state: number for number, state in enumerate(useful)}
    moves = tuple(_moves(steps[state], numbers, plan.alphabet) for state in useful)
    return Automaton(moves, frozenset(range(len(useful))) if plan.stops else frozenset())


def _useful(found: list[_State], steps: dict[_State, dict[str | None, _State | _Left]]) -> list[_State]:
    before: dict[_State | _Left, list[_State]] = {}
    for state, then in steps.items():
        for target in set(then.values()):
            before.setdefault(target, []).append(state)
    reached: set[_State] = set()
    waiting: list[_State | _Left] = [_LEFT]
    while waiting:
        new = set(before.get(waiting.pop(), [])) - reached
        reached |= new
        waiting.extend(new)
    return [state for state in found if state in reached or state == found[0]]


def _moves(
    steps: dict[str | None, _State | _Left], numbers: dict[_State, int], alphabet: frozenset[str]
) -> tuple[Move, ...]:
    """One move for each target; the one that takes characters outside of the alphabet is said by what it refuses."""
    by_target: dict[int | None, set[str | None]] = {}
    for symbol, then in steps.items():
        if isinstance(then, _Left):
            by_target.setdefault(None, set()).add(symbol)
        elif then in numbers:
            by_target.setdefault(numbers[then], set()).add(symbol)
    made: list[Move] = []
    for target, taken in by_target.items():
        chars = frozenset(symbol for symbol in taken if symbol is not None)
        is_rest = None in taken
        made.append(Move(Chars(_ranges(alphabet - chars if is_rest else chars), negated=is_rest), target))
    return tuple(made)


def _ranges(chars: frozenset[str]) -> tuple[tuple[str, str], ...]:
    """Characters in order, neighbours as one range."""
    ranges: list[tuple[str, str]] = []
    for char in sorted(chars):
        if ranges and ord(char) == ord(ranges[-1][1]) + 1:
            ranges[-1] = (ranges[-1][0], char)
        else:
            ranges.append((char, char))
    return tuple(ranges)
