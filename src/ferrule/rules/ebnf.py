"""EBNF in xgrammar's spelling: a node as the text of a grammar of its own, whose start is `root`.

Text that must not contain something is written as an automaton, one rule for each state, so that nothing beyond plain
EBNF is needed. Wider than the rule, and so left to the validator: `pattern`, and lengths of free text and of strings
with excluded texts. Narrower than JSON: an escaped surrogate comes in pairs. Must not know the structural tag that the
grammar stands in.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from ferrule.rules.automaton import (
    Automaton,
    Move,
    character_automaton,
    prose_automaton,
    string_automaton,
    until_automaton,
)
from ferrule.rules.lowering import Lowering
from ferrule.rules.repetition import times
from ferrule.rules.rule import Chars, OneOf, Prose, Ref, Repeat, RuleNode, Seq, Str, Text, Until
from ferrule.rules.text_delimiters import delimited
from ferrule.schema.notation import Quote

_ANYTHING = r"[\u0000-\U0010ffff]"
_NOTHING = r"[^\u0000-\U0010ffff]"


def ebnf_of(node: RuleNode) -> str:
    """The grammar of a node that need not have been lowered."""
    return _Writer().grammar(node)


class _Writer:
    def __init__(self) -> None:
        self._lowering = Lowering()
        self._names: dict[Hashable, str] = {}
        self._rules: dict[str, str] = {}
        self._state_names: dict[str, list[str]] = {}

    def grammar(self, node: RuleNode) -> str:
        root = self._node(delimited(self._lowering.lower(node)))
        for name, definition in self._lowering.definitions.items():
            self._rules[name] = self._node(delimited(definition))
        return "\n".join(f"{name} ::= {body}" for name, body in [("root", root), *self._rules.items()])

    def _node(self, node: RuleNode) -> str:
        match node:
            case Text(text):
                return _quoted(text)
            case Seq(parts):
                return " ".join(map(self._node, parts)) or '""'
            case OneOf(options):
                return "(" + " | ".join(map(self._node, options)) + ")"
            case Repeat():
                return self._repeat(node)
            case Chars(ranges, negated):
                return _class(ranges, negated)
            case Str():
                return self._string(node)
            case Prose():
                return self._states(text := replace(node, at_most=None), prose_automaton(text))
            case Until():
                return self._states(text := replace(node, at_most=None), until_automaton(text))
            case Ref(name):
                return name
            case _:
                raise AssertionError(f"{node} was not lowered")

    def _repeat(self, node: Repeat) -> str:
        inner = self._named(self._node(node.node))
        if not node.sep:
            return inner + times(node.at_least, node.at_most)
        if node.at_most == 0:
            return '""'
        more = None if node.at_most is None else node.at_most - 1
        again = f"({_quoted(node.sep)} {inner}){times(max(0, node.at_least - 1), more)}"
        return f"({inner} {again})" if node.at_least else f"({inner} {again})?"

    def _string(self, node: Str) -> str:
        quote = node.quote
        if not node.excludes and (node.at_least, node.at_most) != (0, None):
            return f"{_quoted(quote.open)} {self._counted(quote, node.at_least, node.at_most)}"
        # To count as well would take as many states again for every character.
        text = Str(quote, excludes=node.excludes)
        return f"{_quoted(quote.open)} {self._states(text, string_automaton(text))}"

    def _counted(self, quote: Quote, at_least: int, at_most: int | None) -> str:
        """What follows the opening quote of a string with a length: a rule for each number of characters left.

        A rule for one character, repeated, would say the same and cost a thousand times as much: xgrammar makes masks
        in advance for what stays inside of a rule, and nearly every token would leave that one. Rules are counted from
        the end, so that a shorter string is a part of a longer one, whose masks xgrammar then has already.
        """
        unbounded = Str(quote)
        tail = self._states(unbounded, string_automaton(unbounded)) if at_most is None else ""
        length = at_least if at_most is None else at_most
        for left in range(length + 1):
            needed = max(0, at_least - (length - left))
            key = ("counted", quote, left, needed, at_most is None)
            if key not in self._names:
                self._names[key] = self._new_name()
                self._rules[self._names[key]] = self._character(quote, left, needed, tail)
            tail = self._names[key]
        return tail

    def _character(self, quote: Quote, left: int, needed: int, tail: str) -> str:
        """One more character and what follows it, or the end."""
        if not left:
            return tail or _quoted(quote.close)
        automaton = character_automaton(quote)
        first = self._states(quote, automaton)
        names = self._state_names[first]
        taken = [f"{_move(move, names)} {tail}" for move in automaton.moves[0]]
        return " | ".join(taken if needed else [_quoted(quote.close), *taken])

    def _states(self, key: Hashable, automaton: Automaton) -> str:
        """The name of the first state's rule. Every state has a rule."""
        if key not in self._names:
            names = [self._new_name() for _ in automaton.moves]
            for number, (name, moves) in enumerate(zip(names, automaton.moves, strict=True)):
                options = [_move(move, names) for move in moves]
                self._rules[name] = (
                    " | ".join(['""', *options] if number in automaton.may_stop else options) or _NOTHING
                )
            self._names[key] = names[0]
            self._state_names[names[0]] = names
        return self._names[key]

    def _named(self, body: str) -> str:
        if body not in self._names:
            self._names[body] = self._new_name()
            self._rules[self._names[body]] = body
        return self._names[body]

    def _new_name(self) -> str:
        name = f"x{len(self._rules)}"
        self._rules[name] = ""
        return name


def _move(move: Move, names: list[str]) -> str:
    taken = _class(move.chars.ranges, move.chars.negated)
    return taken if move.target is None else f"{taken} {names[move.target]}"


def _quoted(text: str) -> str:
    return '"' + "".join(_escaped(char, '"\\') for char in text) + '"'


def _class(ranges: tuple[tuple[str, str], ...], negated: bool) -> str:
    if negated and not ranges:
        return _ANYTHING
    written = "".join(_in_class(a) if a == b else f"{_in_class(a)}-{_in_class(b)}" for a, b in ranges)
    return f"[{'^' if negated else ''}{written}]"


def _in_class(char: str) -> str:
    return _escaped(char, "\\]^-[")


def _escaped(char: str, special: str) -> str:
    if char in special:
        return "\\" + char
    return char if char.isprintable() else f"\\U{ord(char):08x}" if ord(char) > 0xFFFF else f"\\u{ord(char):04x}"
