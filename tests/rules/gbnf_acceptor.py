"""A GBNF matcher that works like llama.cpp's: sets of stacks, one character after another.

It is written from the definition of GBNF alone and does not depend on the emitter.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TypeAlias


class GbnfError(ValueError):
    """A grammar that llama.cpp would refuse."""


@dataclass(frozen=True, slots=True)
class Class:
    """A set of characters, as ranges of code points."""

    ranges: tuple[tuple[int, int], ...]
    negated: bool = False

    def admits(self, code: int) -> bool:
        return any(low <= code <= high for low, high in self.ranges) != self.negated


Element: TypeAlias = Class | str
Alternative: TypeAlias = tuple[Element, ...]

_NAME = re.compile(r"[a-zA-Z0-9-]+")
_BOUNDS = re.compile(r"\{(\d+)(,(\d*))?\}")
_HEX_ESCAPES = {"x": 2, "u": 4, "U": 8}
_ESCAPES = {"t": "\t", "r": "\r", "n": "\n", "\\": "\\", '"': '"', "[": "[", "]": "]"}
_MAX_REPEATS = 2000


@dataclass
class Grammar:
    """The rules of a grammar by name, with repetitions expanded into separate rules."""

    rules: dict[str, list[Alternative]] = field(default_factory=dict)

    @staticmethod
    def of(text: str) -> Grammar:
        grammar = Grammar()
        _Reader(text, grammar).rules()
        grammar.check()
        return grammar

    def add(self, prefix: str, alternatives: list[Alternative]) -> str:
        name = f"{prefix}_{len(self.rules)}"
        self.rules[name] = alternatives
        return name

    def check(self) -> None:
        if "root" not in self.rules:
            raise GbnfError("the grammar has no root")
        for name, alternatives in self.rules.items():
            for element in (element for alternative in alternatives for element in alternative):
                if isinstance(element, str) and element not in self.rules:
                    raise GbnfError(f"{name} refers to {element}, which is not defined")
        self._refuse_left_recursion()

    def _refuse_left_recursion(self) -> None:
        empty = self._nullable()
        done: set[str] = set()
        for start in self.rules:
            path: list[tuple[str, list[str]]] = (
                [(start, self._leading_names(start, empty))] if start not in done else []
            )
            while path:
                name, pending = path[-1]
                if not pending:
                    done.add(name)
                    path.pop()
                    continue
                following = pending.pop()
                if any(following == visited for visited, _ in path):
                    raise GbnfError(f"{following} is left recursive")
                if following not in done:
                    path.append((following, self._leading_names(following, empty)))

    def _leading_names(self, name: str, empty: set[str]) -> list[str]:
        names: list[str] = []
        for alternative in self.rules[name]:
            for element in alternative:
                if not isinstance(element, str):
                    break
                names.append(element)
                if element not in empty:
                    break
        return names

    def _nullable(self) -> set[str]:
        empty: set[str] = set()
        while True:
            added = {
                name
                for name, alternatives in self.rules.items()
                if name not in empty and any(all(element in empty for element in each) for each in alternatives)
            }
            if not added:
                return empty
            empty |= added


class _Reader:
    def __init__(self, text: str, grammar: Grammar) -> None:
        self._text, self._at, self._grammar = text, 0, grammar

    def rules(self) -> None:
        self._space(lines=True)
        while self._at < len(self._text):
            name = self._name()
            self._space(lines=False)
            if not self._text.startswith("::=", self._at):
                raise GbnfError(f"expected ::= at {self._here()}")
            self._at += 3
            self._space(lines=True)
            if name in self._grammar.rules:
                raise GbnfError(f"{name} is defined twice")
            self._grammar.rules[name] = self._alternatives(name, nested=False)
            if self._at < len(self._text) and self._text[self._at] not in "\r\n":
                raise GbnfError(f"expected a new line at {self._here()}")
            self._space(lines=True)

    def _here(self) -> str:
        return repr(self._text[self._at : self._at + 40])

    def _space(self, *, lines: bool) -> None:
        skipped = re.compile(r"(?:[ \t\r\n]|#[^\r\n]*)*" if lines else r"(?:[ \t]|#[^\r\n]*)*")
        match = skipped.match(self._text, self._at)
        self._at = match.end() if match else self._at

    def _name(self) -> str:
        match = _NAME.match(self._text, self._at)
        if match is None:
            raise GbnfError(f"expected a name at {self._here()}")
        self._at = match.end()
        return match.group()

    def _peek(self) -> str:
        return self._text[self._at] if self._at < len(self._text) else ""

    def _alternatives(self, name: str, *, nested: bool) -> list[Alternative]:
        alternatives = [self._sequence(name, nested=nested)]
        while self._peek() == "|":
            self._at += 1
            self._space(lines=True)
            alternatives.append(self._sequence(name, nested=nested))
        return alternatives

    def _sequence(self, name: str, *, nested: bool) -> Alternative:
        elements: list[Element] = []
        last = 0
        while char := self._peek():
            if char in "*+?{":
                elements[last:] = self._repetition(name, tuple(elements[last:]))
            elif char == '"':
                last = len(elements)
                elements.extend(self._string())
            elif char == "[":
                last = len(elements)
                elements.append(self._class())
            elif char == ".":
                self._at += 1
                last = len(elements)
                elements.append(Class((), negated=True))
            elif char == "(":
                self._at += 1
                self._space(lines=True)
                last = len(elements)
                elements.append(self._grammar.add(name, self._alternatives(name, nested=True)))
                if self._peek() != ")":
                    raise GbnfError(f"expected ) at {self._here()}")
                self._at += 1
            elif _NAME.match(char):
                last = len(elements)
                elements.append(self._name())
            else:
                break
            self._space(lines=nested)
        return tuple(elements)

    def _string(self) -> list[Element]:
        self._at += 1
        elements: list[Element] = []
        while self._peek() != '"':
            code = self._char()
            elements.append(Class(((code, code),)))
        self._at += 1
        return elements

    def _class(self) -> Class:
        self._at += 1
        negated = self._peek() == "^"
        self._at += negated
        ranges: list[tuple[int, int]] = []
        while self._peek() != "]":
            low = high = self._char()
            if self._peek() == "-" and self._text[self._at + 1 : self._at + 2] != "]":
                self._at += 1
                high = self._char()
            ranges.append((low, high))
        self._at += 1
        return Class(tuple(ranges), negated)

    def _char(self) -> int:
        char = self._peek()
        if not char:
            raise GbnfError("the grammar ends too early")
        self._at += 1
        if char != "\\":
            return ord(char)
        kind = self._peek()
        self._at += 1
        if kind in _HEX_ESCAPES:
            digits = self._text[self._at : self._at + _HEX_ESCAPES[kind]]
            self._at += _HEX_ESCAPES[kind]
            return int(digits, 16)
        if kind not in _ESCAPES:
            raise GbnfError(f"unknown escape \\{kind}")
        return ord(_ESCAPES[kind])

    def _repetition(self, name: str, body: Alternative) -> list[Element]:
        at_least, at_most = self._bounds()
        if not body:
            raise GbnfError(f"nothing to repeat at {self._here()}")
        if max(at_least, at_most or 0) >= _MAX_REPEATS:
            raise GbnfError("too many repetitions")
        if at_most is not None and at_most < at_least:
            raise GbnfError(f"{at_most} is less than {at_least}")
        rest: str | None = None
        if at_most is None:
            rest = self._grammar.add(name, [])
            self._grammar.rules[rest] = [(*body, rest), ()]
        for _ in range((at_most or 0) - at_least):
            rest = self._grammar.add(name, [(*body, rest) if rest else body, ()])
        return [*body * at_least, *([rest] if rest else [])]

    def _bounds(self) -> tuple[int, int | None]:
        shorthand: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
        char = self._peek()
        if char in shorthand:
            self._at += 1
            return shorthand[char]
        match = _BOUNDS.match(self._text, self._at)
        if match is None:
            raise GbnfError(f"a bad repetition at {self._here()}")
        self._at = match.end()
        at_least = int(match[1])
        return at_least, (at_least if match[2] is None else int(match[3]) if match[3] else None)


# A stack is what is still to be matched: an element's position, and the number of the stack below it. 0 is empty.
_Place: TypeAlias = tuple[str, int, int]
_EMPTY = 0


class Acceptor:
    """Decides whether a grammar admits a text, completely or as a prefix."""

    def __init__(self, text: str) -> None:
        self._rules = Grammar.of(text).rules
        self._numbers: dict[tuple[_Place, int], int] = {}
        self._stacks: list[tuple[_Place, int]] = [(("", 0, 0), 0)]
        self._next: dict[tuple[frozenset[int], str], frozenset[int]] = {}
        self._start = frozenset(
            stack for number in range(len(self._rules["root"])) for stack in self._tops(("root", number, 0), _EMPTY)
        )

    def accepts(self, text: str) -> bool:
        return _EMPTY in self._after(text)

    def admits_beginning(self, text: str) -> bool:
        return bool(self._after(text))

    def accepted_length(self, text: str) -> int:
        """The length of the longest prefix that the grammar admits."""
        state = self._start
        for at, char in enumerate(text):
            state = self._step(state, char)
            if not state:
                return at
        return len(text)

    def next_classes(self, text: str) -> list[Class]:
        """The character classes that may follow a text, one for each stack."""
        places = [self._stacks[number][0] for number in sorted(self._after(text)) if number != _EMPTY]
        elements = [self._rules[rule][alternative][at] for rule, alternative, at in places]
        return [element for element in elements if isinstance(element, Class)]

    def _after(self, text: str) -> frozenset[int]:
        state = self._start
        for char in text:
            state = self._step(state, char)
        return state

    def _step(self, state: frozenset[int], char: str) -> frozenset[int]:
        following = self._next.get((state, char))
        if following is None:
            following = frozenset(stack for number in state for stack in self._advance(number, ord(char)))
            self._next[state, char] = following
        return following

    def _advance(self, number: int, code: int) -> set[int]:
        if number == _EMPTY:
            return set()
        (rule, alternative, at), below = self._stacks[number]
        element = self._rules[rule][alternative][at]
        assert isinstance(element, Class)
        return self._tops((rule, alternative, at + 1), below) if element.admits(code) else set()

    def _tops(self, place: _Place, below: int) -> set[int]:
        """Expand the rules on top: every resulting stack has a character class on top or is empty."""
        tops: set[int] = set()
        visited: set[tuple[_Place, int]] = set()
        pending = [(place, below)]
        while pending:
            stack = pending.pop()
            if stack in visited:
                continue
            visited.add(stack)
            (rule, alternative, at), below = stack
            elements = self._rules[rule][alternative]
            if at == len(elements):
                if below == _EMPTY:
                    tops.add(_EMPTY)
                else:
                    pending.append(self._stacks[below])
                continue
            element = elements[at]
            if isinstance(element, Class):
                tops.add(self._number(stack))
                continue
            # The last element of a rule leaves nothing on the stack, so right recursion does not grow it.
            remaining = self._number(((rule, alternative, at + 1), below)) if at + 1 < len(elements) else below
            pending.extend(((element, number, 0), remaining) for number in range(len(self._rules[element])))
        return tops

    def _number(self, stack: tuple[_Place, int]) -> int:
        number = self._numbers.get(stack)
        if number is None:
            number = self._numbers[stack] = len(self._stacks)
            self._stacks.append(stack)
        return number
