"""EBNF in xgrammar's spelling: a node as the text of a grammar of its own, whose start is `root`.

Text that must not contain something is written as an automaton, one rule for each state, so that nothing beyond plain
EBNF is needed. Must not know the structural tag that the grammar stands in.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from ferrule.rules.delimit import delimited
from ferrule.rules.ebnf_states import Arrow, plain_stops, states_of, string_modes, text_modes
from ferrule.rules.lower import Lowering
from ferrule.rules.repetition import times
from ferrule.rules.rule import Chars, OneOf, Prose, Ref, Repeat, RuleNode, Seq, Str, Text, Until
from ferrule.schema.notation import Escapes

_ESCAPED = {
    Escapes.JSON: r'"\\" (["\\/bfnrt] | "u" [0-9a-fA-F]{4})',
    Escapes.PYTHON: r"""("\\" (["'\\abfnrtv] | "x" [0-9a-fA-F]{2} | "u" [0-9a-fA-F]{4}))""",
}


def ebnf_of(node: RuleNode) -> str:
    """The grammar of a node that need not have been lowered."""
    return _Writer().grammar(node)


class _Writer:
    def __init__(self) -> None:
        self._lowering = Lowering()
        self._names: dict[str, str] = {}
        self._rules: dict[str, str] = {}
        self._written: dict[tuple[int, bool], tuple[Sequence[object], str]] = {}

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
            case Prose(excludes, not_first):
                return self._states(states_of(text_modes(not_first), excludes), may_stop=True)
            case Until(end, excludes, not_first):
                size = _first_complete(end, excludes)
                text = self._states(states_of(text_modes(not_first), excludes, end[:size]))
                return f"{text} {_quoted(end[size:])}" if end[size:] else text
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
        opener, close, escapes = node.quote.open, node.quote.close, node.quote.escapes
        if not node.excludes:
            char = self._named(f"{_chars_in(plain_stops(close), True)} | {_ESCAPED[escapes]}")
            return f"{_quoted(opener)} {char}{times(node.at_least, node.at_most)} {_quoted(close)}"
        # The automaton cannot count as well: a length beside forbidden words is left to the validator.
        states = states_of(string_modes(close, escapes), node.excludes, before=opener)
        return f"{_quoted(opener)} {self._states(states)}"

    def _states(self, states: Sequence[tuple[Arrow, ...]], *, may_stop: bool = False) -> str:
        """The name of the first state's rule. Every state has a rule."""
        # The states are kept beside their name, so that their identity stays their own.
        key = (id(states), may_stop)
        if key not in self._written:
            names = [self._new_name() for _ in states]
            for name, arrows in zip(names, states, strict=True):
                options = [_chars_in(arrow.chars, arrow.negated) + _to(arrow, names) for arrow in arrows]
                self._rules[name] = " | ".join(['""', *options] if may_stop else options)
            self._written[key] = (states, names[0])
        return self._written[key][1]

    def _named(self, body: str) -> str:
        if body not in self._names:
            self._names[body] = self._new_name()
            self._rules[self._names[body]] = body
        return self._names[body]

    def _new_name(self) -> str:
        name = f"x{len(self._rules)}"
        self._rules[name] = ""
        return name


def _to(arrow: Arrow, names: list[str]) -> str:
    return "" if arrow.to is None else f" {names[arrow.to]}"


def _first_complete(text: str, words: tuple[str, ...]) -> int:
    """Where in a text the first of some words is complete."""
    return min((text.find(word) + len(word) for word in words if word in text), default=len(text))


def _quoted(text: str) -> str:
    return '"' + "".join(_escaped(char, '"\\') for char in text) + '"'


@lru_cache(maxsize=1024)
def _chars_in(chars: str, negated: bool) -> str:
    """A class of single characters, neighbours as ranges."""
    ranges: list[tuple[str, str]] = []
    for char in sorted(set(chars)):
        if ranges and ord(char) == ord(ranges[-1][1]) + 1:
            ranges[-1] = (ranges[-1][0], char)
        else:
            ranges.append((char, char))
    return _class(tuple(ranges), negated)


def _class(ranges: tuple[tuple[str, str], ...], negated: bool) -> str:
    if negated and not ranges:
        return r"[\u0000-\U0010ffff]"
    written = "".join(_in_class(a) if a == b else f"{_in_class(a)}-{_in_class(b)}" for a, b in ranges)
    return f"[{'^' if negated else ''}{written}]"


def _in_class(char: str) -> str:
    return _escaped(char, "\\]^-[")


def _escaped(char: str, special: str) -> str:
    if char in special:
        return "\\" + char
    return char if char.isprintable() else f"\\U{ord(char):08x}" if ord(char) > 0xFFFF else f"\\u{ord(char):04x}"
