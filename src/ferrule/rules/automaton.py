"""Automata for text that must not contain certain strings.

Targets such as GBNF have no operator for "text without these strings", so they write out the states. Every state lists
its transitions by sets of characters: a target needs only character classes and right-linear rules. This module alone
defines what a string or free text may contain. It does not depend on any target.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Generic, TypeVar

from ferrule.core.byte_cache import ENTRY_BYTES, byte_cached
from ferrule.rules.rule import AdditionalKey, Chars, Prose, Repeat, Str, Until
from ferrule.schema.notation import Escapes, Quote

_State = TypeVar("_State", bound=Hashable)


class _Complete(Enum):
    COMPLETE = "the text is complete"


_COMPLETE = _Complete.COMPLETE


@dataclass(frozen=True, slots=True)
class Transition:
    """A transition on one of `chars` to the state with number `target`; None means that the text ends here."""

    chars: Chars
    target: int | None


@dataclass(frozen=True, slots=True)
class Automaton:
    """The transitions of each state. State 0 is the start; the text may end in any of the `accepting` states."""

    transitions: tuple[tuple[Transition, ...], ...]
    accepting: frozenset[int] = frozenset()


def _size_of(automaton: Automaton) -> int:
    # Measured: 225 bytes for each transition. A client's lengths and names decide how many there are.
    return ENTRY_BYTES + 256 * sum(map(len, automaton.transitions))


@dataclass(frozen=True, slots=True)
class _StateMachine(Generic[_State]):
    """A lazily defined automaton, which `_build` turns into tables.

    `step` returns the state after a character, or None if the character is not allowed. A character of None stands for
    every character outside of `alphabet`.
    """

    start: _State
    step: Callable[[_State, str | None], _State | _Complete | None]
    alphabet: frozenset[str]
    accepts_anywhere: bool = False


@dataclass(frozen=True, slots=True)
class _SubstringTracker:
    """Detects when one of the strings is completed. Its state is the longest suffix that is a prefix of a string.

    `completed` has an entry for each prefix: the length of the longest string that ends with it, or 0. A step then
    takes no longer with a thousand strings, which are the names of a tool set.
    """

    completed: Mapping[str, int]

    @staticmethod
    def for_strings(strings: tuple[str, ...], end: str = "") -> _SubstringTracker:
        """A tracker for the strings, without those that can never be the first to be completed."""
        minimal = minimal_strings(strings, end)
        whole = frozenset(minimal)
        prefixes = {text[:size] for text in minimal for size in range(1, len(text) + 1)}
        completed = {"": 0}
        for prefix in sorted(prefixes, key=len):
            if prefix in whole:
                completed[prefix] = len(prefix)
                continue
            # Whatever else ends here is a suffix, and the longest one that is a prefix knows of all shorter ones.
            suffix = next(prefix[at:] for at in range(1, len(prefix) + 1) if prefix[at:] in completed)
            completed[prefix] = completed[suffix]
        return _SubstringTracker(completed)

    def step(self, suffix: str, char: str | None) -> tuple[str, int]:
        """The new state after a character, and the length of the longest string that ends at it."""
        if char is None:
            return "", 0
        suffix += char
        # Drop characters from the front until the rest can still grow into one of the strings.
        while suffix not in self.completed:
            suffix = suffix[1:]
        return suffix, self.completed[suffix]


def minimal_strings(strings: Iterable[str], end: str = "") -> tuple[str, ...]:
    """The strings that contain no other one: text that excludes these excludes all of them.

    If the text runs up to `end`, a string that contains only strings which are also inside `end` stays in the result,
    because it may begin before the end.
    """
    distinct = tuple(dict.fromkeys(filter(None, strings)))
    return tuple(text for text in distinct if not _is_redundant(text, distinct, end))


def _is_redundant(text: str, strings: tuple[str, ...], end: str) -> bool:
    """Whether the end, or a string inside of this one, is always completed before this string is."""
    if end and end in text[:-1]:
        return True
    return any(other != text and other in text and other not in end for other in strings)


@byte_cached(lambda _, automaton: _size_of(automaton))
def prose_automaton(node: Prose) -> Automaton:
    """Text without any of the excluded strings; it may stop anywhere."""
    tracker = _SubstringTracker.for_strings(node.excludes)
    alphabet = frozenset("".join(node.excludes) + node.not_first)

    def step(state: tuple[str, int, bool], char: str | None) -> tuple[str, int, bool] | None:
        suffix, count, is_first = state
        suffix, length = tracker.step(suffix, char)
        is_refused = length or (is_first and char is not None and char in node.not_first)
        if is_refused or count == node.at_most:
            return None
        return suffix, count + (node.at_most is not None), False

    return _build(_StateMachine(("", 0, bool(node.not_first)), step, alphabet, accepts_anywhere=True))


@byte_cached(lambda _, automaton: _size_of(automaton))
def until_automaton(node: Until) -> Automaton:
    """Text up to and including the first `end`. An excluded string may occur inside of the end, and nowhere else."""
    return _build(_until_machine(node))


def _until_machine(node: Until) -> _StateMachine[tuple[str, int | None, frozenset[int], bool]]:
    """The machine of `until_automaton`.

    A state holds the tracker's state, the number of characters read (None: no more text is allowed, the end must
    follow), the progress of each possible occurrence of the end, and whether nothing was read yet.
    """
    end = node.end
    tracker = _SubstringTracker.for_strings(node.excludes, end)

    def step(
        state: tuple[str, int | None, frozenset[int], bool], char: str | None
    ) -> tuple[str, int | None, frozenset[int], bool] | _Complete | None:
        suffix, count, end_progress, is_first = state
        suffix, length = tracker.step(suffix, char)
        candidates = end_progress if count is None else end_progress | {0}
        end_progress = frozenset(at + 1 for at in candidates if end[at] == char and at + 1 >= length)
        if len(end) in end_progress:
            return _COMPLETE
        is_refused = length or (is_first and char is not None and char in node.not_first)
        if count is not None:
            count = None if is_refused or count == node.at_most else count + (node.at_most is not None)
        return None if count is None and not end_progress else (suffix, count, end_progress, False)

    start = ("", 0, frozenset[int](), bool(node.not_first))
    return _StateMachine(start, step, frozenset("".join(node.excludes) + node.not_first + end))


_HEX = frozenset(string.hexdigits)
_CONTROL = frozenset(map(chr, range(0x20)))
_PLAIN = {Escapes.JSON: '"\\/bfnrt', Escapes.PYTHON: "\"'\\abfnrtv"}
# What may follow a backslash, by position inside the escape: allowed characters and the next position, "" if complete.
# A high surrogate requires a low one after it, so that the string is always valid Unicode.
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


def _escape_step(quote: Quote, position: str, char: str | None) -> str | None:
    """The position inside an escape after `char`: "" means that the character is complete, None that it is invalid."""
    if position:
        options = _AFTER_BACKSLASH[quote.escapes][position]
        return next((next_position for chars, next_position in options if char is not None and char in chars), None)
    if char is None or char not in _CONTROL | {"\\", quote.close}:
        return ""
    return "\\" if char == "\\" else None


def _string_alphabet(quote: Quote) -> frozenset[str]:
    return _CONTROL | _HEX | frozenset(_PLAIN[quote.escapes]) | frozenset("\\ux" + quote.close)


@lru_cache(maxsize=16)
def character_automaton(quote: Quote) -> Automaton:
    """One character of a string in these quotes, literal or escaped."""

    def step(position: str, char: str | None) -> str | _Complete | None:
        next_position = _escape_step(quote, position, char)
        return _COMPLETE if next_position == "" else next_position

    return _build(_StateMachine("", step, _string_alphabet(quote)))


@byte_cached(lambda _, automaton: _size_of(automaton))
def string_automaton(node: Str) -> Automaton:
    """The rest of a string after its opening quote, including the closing one, without any excluded string.

    An escape counts as one character of the string's length. The excluded strings are matched against the text as it
    is written, escapes included.
    """
    return _build(_string_machine(node))


def _string_machine(node: Str) -> _StateMachine[tuple[str, int, str]]:
    tracker = _SubstringTracker.for_strings(node.excludes)
    count_limit = node.at_least if node.at_most is None else node.at_most

    def step(state: tuple[str, int, str], char: str | None) -> tuple[str, int, str] | _Complete | None:
        suffix, count, position = state
        suffix, length = tracker.step(suffix, char)
        if length:
            return None
        if not position and char == node.quote.close:
            return _COMPLETE if count >= node.at_least else None
        next_position = _escape_step(node.quote, position, char)
        if next_position is None or (not position and count == node.at_most):
            return None
        return suffix, min(count_limit, count + (not position)), next_position

    suffix = ""
    for char in node.quote.open:
        suffix, _ = tracker.step(suffix, char)
    return _StateMachine((suffix, 0, ""), step, _string_alphabet(node.quote) | frozenset("".join(node.excludes)))


# Each letter of a listed name is a state, so a schema that lists a great deal does not exclude its names again.
_MAX_LISTED = 2_000


@dataclass(frozen=True, slots=True)
class KeyAutomaton:
    """An additional key: a text, then what the automaton admits, then another text."""

    before: str
    automaton: Automaton
    after: str


@byte_cached(lambda _, key: _size_of(key.automaton))
def key_automaton(node: AdditionalKey) -> KeyAutomaton:
    """A key that is none of the listed ones."""
    listed = node.listed if sum(map(len, node.listed)) <= _MAX_LISTED else ()
    match node.name:
        case Prose(excludes):
            machine = _other_than([name + node.end for name in listed], _until_machine(Until(node.end, excludes)))
            return KeyAutomaton(node.begin, _build(machine), "")
        case Str(quote):
            written = [name.removeprefix(quote.open) for name in listed]
            return KeyAutomaton(
                node.begin + quote.open, _build(_other_than(written, _string_machine(node.name))), node.end
            )
        case Repeat(Chars(ranges)):
            stop, after = node.end[:1], node.end[1:]
            machine = _other_than([name + stop for name in listed], _run_machine(ranges, stop))
            return KeyAutomaton(node.begin, _build(machine), after)
        case _:
            raise AssertionError(f"{node.name} is not a name")


def _run_machine(ranges: tuple[tuple[str, str], ...], stop: str) -> _StateMachine[bool]:
    """One or more characters of the ranges, then the stop, which is none of them. The state: whether one was read."""

    def step(has_some: bool, char: str | None) -> bool | _Complete | None:
        if char == stop:
            return _COMPLETE if has_some else None
        return True if char is None or any(low <= char <= high for low, high in ranges) else None

    return _StateMachine(False, step, _between(ranges) | {stop})


def _between(ranges: tuple[tuple[str, str], ...]) -> frozenset[str]:
    """The characters between sorted ranges that end with the last character there is. Surrogates are no characters."""
    starts = ["\0", *(chr(min(ord(high) + 1, 0x10FFFF)) for _, high in ranges[:-1])]
    gaps = zip(starts, (low for low, _ in ranges), strict=True)
    codes = (code for start, low in gaps for code in range(ord(start), ord(low)))
    return frozenset(chr(code) for code in codes if not 0xD800 <= code < 0xE000)


def _other_than(texts: Iterable[str], machine: _StateMachine[_State]) -> _StateMachine[tuple[_State, str | None]]:
    """The machine without these texts. The state adds what was read, as long as it begins one of them."""
    refused = frozenset(texts)
    prefixes = frozenset(text[:size] for text in refused for size in range(len(text) + 1))

    def step(state: tuple[_State, str | None], char: str | None) -> tuple[_State, str | None] | _Complete | None:
        inner, read = state
        after = machine.step(inner, char)
        read = None if read is None or char is None or read + char not in prefixes else read + char
        if after is None or isinstance(after, _Complete):
            return None if read in refused else after
        return after, read

    return _StateMachine((machine.start, ""), step, machine.alphabet | frozenset("".join(refused)))


def _build(machine: _StateMachine[_State]) -> Automaton:
    """The tables of a machine: every state that is reachable and can reach an end, numbered in order of discovery."""
    symbols = [None, *sorted(machine.alphabet)]
    states: list[_State] = [machine.start]
    visited: set[_State] = {machine.start}
    steps: dict[_State, dict[str | None, _State | _Complete]] = {}
    for state in states:
        steps[state] = {}
        for symbol in symbols:
            next_state = machine.step(state, symbol)
            if next_state is None:
                continue
            steps[state][symbol] = next_state
            if not isinstance(next_state, _Complete) and next_state not in visited:
                visited.add(next_state)
                states.append(next_state)
    productive = states if machine.accepts_anywhere else _productive_states(states, steps)
    numbers = {state: number for number, state in enumerate(productive)}
    transitions = tuple(_transitions(steps[state], numbers, machine.alphabet) for state in productive)
    return Automaton(transitions, frozenset(range(len(productive))) if machine.accepts_anywhere else frozenset())


def _productive_states(states: list[_State], steps: dict[_State, dict[str | None, _State | _Complete]]) -> list[_State]:
    # A state from which the text can never end would let a model write into a dead end, so it is removed: search
    # backwards from the end.
    predecessors: dict[_State | _Complete, list[_State]] = {}
    for state, next_states in steps.items():
        for target in set(next_states.values()):
            predecessors.setdefault(target, []).append(state)
    productive: set[_State] = set()
    pending: list[_State | _Complete] = [_COMPLETE]
    while pending:
        new = set(predecessors.get(pending.pop(), [])) - productive
        productive |= new
        pending.extend(new)
    return [state for state in states if state in productive or state == states[0]]


def _transitions(
    steps: dict[str | None, _State | _Complete], numbers: dict[_State, int], alphabet: frozenset[str]
) -> tuple[Transition, ...]:
    """One transition for each target. The one for characters outside of the alphabet is written as a negated class."""
    by_target: dict[int | None, set[str | None]] = {}
    for symbol, next_state in steps.items():
        if isinstance(next_state, _Complete):
            by_target.setdefault(None, set()).add(symbol)
        elif next_state in numbers:
            by_target.setdefault(numbers[next_state], set()).add(symbol)
    transitions: list[Transition] = []
    for target, symbols in by_target.items():
        chars = frozenset(symbol for symbol in symbols if symbol is not None)
        is_rest = None in symbols
        transitions.append(Transition(Chars(_ranges(alphabet - chars if is_rest else chars), negated=is_rest), target))
    return tuple(transitions)


def _ranges(chars: frozenset[str]) -> tuple[tuple[str, str], ...]:
    """The characters in order, with neighbours joined into one range."""
    ranges: list[tuple[str, str]] = []
    for char in sorted(chars):
        if ranges and ord(char) == ord(ranges[-1][1]) + 1:
            ranges[-1] = (ranges[-1][0], char)
        else:
            ranges.append((char, char))
    return tuple(ranges)
