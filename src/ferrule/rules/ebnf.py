"""Emit a node as EBNF in xgrammar's syntax: a complete grammar that starts at `root`.

Text with excluded strings is written as an automaton, one rule for each state, so plain EBNF is enough. Some
constraints are dropped, so the grammar is wider than the rule and the validator checks them afterwards: `pattern`, and
the lengths of free text and of strings with excluded texts. One thing is narrower than JSON: escaped surrogates must
come in pairs. This module does not depend on the structural tag that contains the grammar.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from ferrule.rules.automaton import (
    Automaton,
    Transition,
    character_automaton,
    key_automaton,
    prose_automaton,
    string_automaton,
    until_automaton,
)
from ferrule.rules.lowering import Lowering
from ferrule.rules.repetition import quantifier
from ferrule.rules.rule import AdditionalKey, Chars, OneOf, Prose, Ref, Repeat, RuleNode, Seq, Str, Text, Until
from ferrule.rules.text_delimiters import delimit
from ferrule.schema.notation import Quote

_ANYTHING = r"[\u0000-\U0010ffff]"
_NOTHING = r"[^\u0000-\U0010ffff]"


def ebnf_of(node: RuleNode) -> str:
    """The grammar of a node, which may still contain schema leaves."""
    return _Writer().grammar(node)


class _Writer:
    def __init__(self) -> None:
        self._lowering = Lowering()
        self._names: dict[Hashable, str] = {}
        self._rules: dict[str, str] = {}
        self._state_names: dict[str, list[str]] = {}

    def grammar(self, node: RuleNode) -> str:
        root = self._node(delimit(self._lowering.lower(node)))
        for name, definition in self._lowering.definitions.items():
            self._rules[name] = self._node(delimit(definition))
        return "\n".join(f"{name} ::= {body}" for name, body in [("root", root), *self._rules.items()])

    def _node(self, node: RuleNode) -> str:
        match node:
            case Text(text):
                return _quote(text)
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
            case AdditionalKey():
                key = key_automaton(node)
                return f"{_quote(key.before)} {self._states(node, key.automaton)} {_quote(key.after)}"
            case Ref(name):
                return name
            case _:
                raise AssertionError(f"{node} was not lowered")

    def _repeat(self, node: Repeat) -> str:
        inner = self._name_for(self._node(node.node))
        if not node.sep:
            return inner + quantifier(node.at_least, node.at_most)
        if node.at_most == 0:
            return '""'
        more = None if node.at_most is None else node.at_most - 1
        again = f"({_quote(node.sep)} {inner}){quantifier(max(0, node.at_least - 1), more)}"
        return f"({inner} {again})" if node.at_least else f"({inner} {again})?"

    def _string(self, node: Str) -> str:
        quote = node.quote
        if not node.excludes and (node.at_least, node.at_most) != (0, None):
            return f"{_quote(quote.open)} {self._bounded_string(quote, node.at_least, node.at_most)}"
        # Counting as well would multiply the number of states by the length.
        text = Str(quote, excludes=node.excludes)
        return f"{_quote(quote.open)} {self._states(text, string_automaton(text))}"

    def _bounded_string(self, quote: Quote, at_least: int, at_most: int | None) -> str:
        """The rest of a string with a length, after its opening quote: a rule for each number of remaining characters.

        A repeated rule for one character would define the same language at a thousand times the cost: xgrammar
        precomputes masks for tokens that stay inside of one rule, and nearly every token spans several characters.
        Rules are counted from the end, so a shorter string reuses the rules, and the masks, of a longer one.
        """
        unbounded = Str(quote)
        tail = self._states(unbounded, string_automaton(unbounded)) if at_most is None else ""
        length = at_least if at_most is None else at_most
        close = _quote(quote.close)
        # The same for every remaining character, and a string may have hundreds of them.
        moves: list[str] = []
        for remaining in range(length + 1):
            required = max(0, at_least - (length - remaining))
            key = ("counted", quote.open, quote.close, quote.escapes.name, remaining, required, at_most is None)
            if key not in self._names:
                self._names[key] = self._new_name()
                moves = moves or (self._first_moves(quote) if remaining else [])
                body = " | ".join([*([] if required else [close]), *(f"{move} {tail}" for move in moves)])
                self._rules[self._names[key]] = body if remaining else tail or close
            tail = self._names[key]
        return tail

    def _first_moves(self, quote: Quote) -> list[str]:
        """The transitions that begin a character of a string in these quotes."""
        automaton = character_automaton(quote)
        names = self._state_names[self._states(quote, automaton)]
        return [_transition(move, names) for move in automaton.transitions[0]]

    def _states(self, key: Hashable, automaton: Automaton) -> str:
        """Write one rule for each state; returns the name of the first state's rule."""
        if key not in self._names:
            names = [self._new_name() for _ in automaton.transitions]
            for number, (name, moves) in enumerate(zip(names, automaton.transitions, strict=True)):
                options = [_transition(move, names) for move in moves]
                self._rules[name] = (
                    " | ".join(['""', *options] if number in automaton.accepting else options) or _NOTHING
                )
            self._names[key] = names[0]
            self._state_names[names[0]] = names
        return self._names[key]

    def _name_for(self, body: str) -> str:
        if body not in self._names:
            self._names[body] = self._new_name()
            self._rules[self._names[body]] = body
        return self._names[body]

    def _new_name(self) -> str:
        name = f"x{len(self._rules)}"
        self._rules[name] = ""
        return name


def _transition(transition: Transition, names: list[str]) -> str:
    chars = _class(transition.chars.ranges, transition.chars.negated)
    return chars if transition.target is None else f"{chars} {names[transition.target]}"


def _quote(text: str) -> str:
    return '"' + "".join(_escape(char, '"\\') for char in text) + '"'


def _class(ranges: tuple[tuple[str, str], ...], negated: bool) -> str:
    if negated and not ranges:
        return _ANYTHING
    body = "".join(_escape_in_class(a) if a == b else f"{_escape_in_class(a)}-{_escape_in_class(b)}" for a, b in ranges)
    return f"[{'^' if negated else ''}{body}]"


def _escape_in_class(char: str) -> str:
    return _escape(char, "\\]^-[")


def _escape(char: str, special: str) -> str:
    if char in special:
        return "\\" + char
    return char if char.isprintable() else f"\\U{ord(char):08x}" if ord(char) > 0xFFFF else f"\\u{ord(char):04x}"
