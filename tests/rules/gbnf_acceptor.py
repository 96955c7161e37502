"""Reads GBNF and says which texts it admits, the way llama.cpp does: sets of stacks, one character after another.

Written from the language alone; it knows nothing of what emits it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TypeAlias


class GbnfError(ValueError):
    """A grammar that llama.cpp would refuse."""


@dataclass(frozen=True, slots=True)
class Class:
    """A set of characters, by code points."""

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
_MOST_REPEATED = 2000


@dataclass
class Grammar:
    """Rules by name, repetitions written out as rules of their own."""

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
            raise GbnfError("there is no root")
        for name, alternatives in self.rules.items():
            for element in (element for alternative in alternatives for element in alternative):
                if isinstance(element, str) and element not in self.rules:
                    raise GbnfError(f"{name} names {element}, which is not there")
        self._refuse_left_recursion()

    def _refuse_left_recursion(self) -> None:
        empty = self._nullable()
        done: set[str] = set()
        for start in self.rules:
            path: list[tuple[str, list[str]]] = [(start, self._leading(start, empty))] if start not in done else []
            while path:
                name, waiting = path[-1]
                if not waiting:
                    done.add(name)
                    path.pop()
                    continue
                then = waiting.pop()
                if any(then == passed for passed, _ in path):
                    raise GbnfError(f"{then} is left recursive")
                if then not in done:
                    path.append((then, self._leading(then, empty)))

    def _leading(self, name: str, empty: set[str]) -> list[str]:
        found: list[str] = []
        for alternative in self.rules[name]:
            for element in alternative:
                if not isinstance(element, str):
                    break
                found.append(element)
                if element not in empty:
                    break
        return found

    def _nullable(self) -> set[str]:
        empty: set[str] = set()
        while True:
            more = {
                name
                for name, alternatives in self.rules.items()
                if name not in empty and any(all(element in empty for element in each) for each in alternatives)
            }
            if not more:
                return empty
            empty |= more


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
                raise GbnfError(f"{name} is there twice")
            self._grammar.rules[name] = self._alternatives(name, nested=False)
            if self._at < len(self._text) and self._text[self._at] not in "\r\n":
                raise GbnfError(f"expected a new line at {self._here()}")
            self._space(lines=True)

    def _here(self) -> str:
        return repr(self._text[self._at : self._at + 40])

    def _space(self, *, lines: bool) -> None:
        skipped = re.compile(r"(?:[ \t\r\n]|#[^\r\n]*)*" if lines else r"(?:[ \t]|#[^\r\n]*)*")
        found = skipped.match(self._text, self._at)
        self._at = found.end() if found else self._at

    def _name(self) -> str:
        found = _NAME.match(self._text, self._at)
        if found is None:
            raise GbnfError(f"expected a name at {self._here()}")
        self._at = found.end()
        return found.group()

    def _peek(self) -> str:
        return self._text[self._at] if self._at < len(self._text) else ""

    def _alternatives(self, name: str, *, nested: bool) -> list[Alternative]:
        made = [self._sequence(name, nested=nested)]
        while self._peek() == "|":
            self._at += 1
            self._space(lines=True)
            made.append(self._sequence(name, nested=nested))
        return made

    def _sequence(self, name: str, *, nested: bool) -> Alternative:
        made: list[Element] = []
        last = 0
        while char := self._peek():
            if char in "*+?{":
                made[last:] = self._repeated(name, tuple(made[last:]))
            elif char == '"':
                last = len(made)
                made.extend(self._string())
            elif char == "[":
                last = len(made)
                made.append(self._class())
            elif char == ".":
                self._at += 1
                last = len(made)
                made.append(Class((), negated=True))
            elif char == "(":
                self._at += 1
                self._space(lines=True)
                last = len(made)
                made.append(self._grammar.add(name, self._alternatives(name, nested=True)))
                if self._peek() != ")":
                    raise GbnfError(f"expected ) at {self._here()}")
                self._at += 1
            elif _NAME.match(char):
                last = len(made)
                made.append(self._name())
            else:
                break
            self._space(lines=nested)
        return tuple(made)

    def _string(self) -> list[Element]:
        self._at += 1
        made: list[Element] = []
        while self._peek() != '"':
            code = self._char()
            made.append(Class(((code, code),)))
        self._at += 1
        return made

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

    def _repeated(self, name: str, body: Alternative) -> list[Element]:
        at_least, at_most = self._bounds()
        if not body:
            raise GbnfError(f"nothing to repeat at {self._here()}")
        if max(at_least, at_most or 0) >= _MOST_REPEATED:
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
        known: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
        char = self._peek()
        if char in known:
            self._at += 1
            return known[char]
        found = _BOUNDS.match(self._text, self._at)
        if found is None:
            raise GbnfError(f"a bad repetition at {self._here()}")
        self._at = found.end()
        at_least = int(found[1])
        return at_least, (at_least if found[2] is None else int(found[3]) if found[3] else None)


# A stack is what is still to be matched: an element's place, and the number of the stack below it. 0 is the empty one.
_Place: TypeAlias = tuple[str, int, int]
_EMPTY = 0


class Acceptor:
    """Says of a text whether the grammar admits it whole, or as the beginning of something."""

    def __init__(self, text: str) -> None:
        self._rules = Grammar.of(text).rules
        self._numbers: dict[tuple[_Place, int], int] = {}
        self._stacks: list[tuple[_Place, int]] = [(("", 0, 0), 0)]
        self._next: dict[tuple[frozenset[int], str], frozenset[int]] = {}
        self._begin = frozenset(
            stack for number in range(len(self._rules["root"])) for stack in self._tops(("root", number, 0), _EMPTY)
        )

    def accepts(self, text: str) -> bool:
        return _EMPTY in self._after(text)

    def admits_beginning(self, text: str) -> bool:
        return bool(self._after(text))

    def accepted_length(self, text: str) -> int:
        """How many characters of the text may be written."""
        state = self._begin
        for at, char in enumerate(text):
            state = self._step(state, char)
            if not state:
                return at
        return len(text)

    def next_classes(self, text: str) -> list[Class]:
        """What may be written after a text, by the characters that each stack waits for."""
        places = [self._stacks[number][0] for number in sorted(self._after(text)) if number != _EMPTY]
        elements = [self._rules[rule][alternative][at] for rule, alternative, at in places]
        return [element for element in elements if isinstance(element, Class)]

    def _after(self, text: str) -> frozenset[int]:
        state = self._begin
        for char in text:
            state = self._step(state, char)
        return state

    def _step(self, state: frozenset[int], char: str) -> frozenset[int]:
        known = self._next.get((state, char))
        if known is None:
            known = frozenset(stack for number in state for stack in self._taken(number, ord(char)))
            self._next[state, char] = known
        return known

    def _taken(self, number: int, code: int) -> set[int]:
        if number == _EMPTY:
            return set()
        (rule, alternative, at), below = self._stacks[number]
        element = self._rules[rule][alternative][at]
        assert isinstance(element, Class)
        return self._tops((rule, alternative, at + 1), below) if element.admits(code) else set()

    def _tops(self, place: _Place, below: int) -> set[int]:
        """Every stack that has a character on top, or is empty, once rules on top are opened."""
        found: set[int] = set()
        seen: set[tuple[_Place, int]] = set()
        waiting = [(place, below)]
        while waiting:
            stack = waiting.pop()
            if stack in seen:
                continue
            seen.add(stack)
            (rule, alternative, at), below = stack
            elements = self._rules[rule][alternative]
            if at == len(elements):
                if below == _EMPTY:
                    found.add(_EMPTY)
                else:
                    waiting.append(self._stacks[below])
                continue
            element = elements[at]
            if isinstance(element, Class):
                found.add(self._number(stack))
                continue
            # What is last in its rule leaves nothing behind, so that right recursion does not grow the stack.
            kept = self._number(((rule, alternative, at + 1), below)) if at + 1 < len(elements) else below
            waiting.extend(((element, number, 0), kept) for number in range(len(self._rules[element])))
        return found

    def _number(self, stack: tuple[_Place, int]) -> int:
        number = self._numbers.get(stack)
        if number is None:
            number = self._numbers[stack] = len(self._stacks)
            self._stacks.append(stack)
        return number
