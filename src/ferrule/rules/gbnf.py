"""Emit a rule as GBNF for llama.cpp. All values are lowered, JSON too; free text becomes right-linear rules.

Some constraints are dropped, so the grammar is wider than the rule and the validator checks them afterwards: `pattern`;
lengths and counts beyond `_MAX_REPEATS`; lengths of free text and of strings with excluded texts that are beyond
`_MAX_COUNTED`, or whose automaton would grow past `_MAX_STATES`. One thing is narrower than JSON: escaped surrogates
must come in pairs. The engine itself never writes a NUL character.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from ferrule.rules.automaton import (
    Automaton,
    character_automaton,
    key_automaton,
    prose_automaton,
    string_automaton,
    until_automaton,
)
from ferrule.rules.lowering import Lowering
from ferrule.rules.repetition import quantifier
from ferrule.rules.rule import (
    AdditionalKey,
    Chars,
    OneOf,
    Prose,
    Ref,
    Repeat,
    Rule,
    RuleNode,
    Seq,
    Str,
    Text,
    Until,
    one_of,
)
from ferrule.rules.text_delimiters import delimit

NOTHING = r"[^\x00-\U0010FFFF]"
"""A class that matches no character."""


def literal(text: str) -> str:
    """A GBNF literal for exactly this text."""
    escaped = text.translate(_IN_TEXT)
    return f'"{escaped if escaped.isprintable() else "".join(map(_escape_unprintable, escaped))}"'


def char_class(ranges: tuple[tuple[str, str], ...], is_negated: bool) -> str:
    """A GBNF character class for the ranges, or for all characters outside of them."""
    if not ranges:
        return "." if is_negated else NOTHING
    pieces = (_in_class(low) + (f"-{_in_class(high)}" if high != low else "") for low, high in ranges)
    return f"[{'^' if is_negated else ''}{''.join(pieces)}]"


def _in_class(char: str) -> str:
    return _IN_CLASS.get(char) or _escape_unprintable(char)


def _escape_unprintable(char: str) -> str:
    if char.isprintable():
        return char
    code = ord(char)
    return f"\\x{code:02X}" if code < 0x80 else f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}"


_IN_TEXT = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"})
# Inside a class, a hyphen or a caret is safe in every position only as a hex escape.
_IN_CLASS = {"\\": "\\\\", "[": "\\[", "]": "\\]", "-": "\\x2D", "^": "\\x5E", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


# llama.cpp refuses a grammar in which the count of a repetition times the size of its body reaches 2000.
_MAX_REPEATS = 512
_MAX_COUNTED = 64
_MAX_STATES = 1024
# Repeating a shorter piece costs less than giving it a name.
_MIN_NAMED_LENGTH = 40
_FreeText = TypeVar("_FreeText", Prose, Until)


@dataclass(frozen=True, slots=True)
class Gbnf:
    """An emitted grammar. `text` is the complete grammar.

    Engines that support lazy grammars wait for one of `triggers` and then apply `triggered`. llama.cpp matches the
    trigger itself too, so `triggered` begins with it.
    """

    text: str
    triggers: tuple[str, ...] = ()
    triggered: str | None = None


def emit_gbnf(rule: Rule) -> Gbnf:
    """Emit a rule as GBNF. The grammar never contains left recursion, which llama.cpp refuses."""
    emitter = _Emitter()
    start = emitter.prepare(rule.start)
    if rule.triggered is None:
        return Gbnf(emitter.grammar(start), rule.triggers)
    # The smaller grammar's rules are also rules of the larger one, so one emitter writes both.
    triggered = emitter.grammar(emitter.prepare(rule.triggered))
    return Gbnf(emitter.grammar(start), rule.triggers, triggered)


class _Emitter:
    def __init__(self) -> None:
        self._lowering = Lowering()
        self._emitted: dict[int, tuple[RuleNode, str]] = {}
        self._lines: list[str] = []
        self._names: dict[Hashable, str] = {}
        self._pending: list[str] = []
        self._defined: set[str] = set()

    def prepare(self, node: RuleNode) -> RuleNode:
        return delimit(self._lowering.lower(node))

    def grammar(self, start: RuleNode) -> str:
        root = self._node(start)
        while self._pending:
            name = self._pending.pop()
            body = _without_unit_cycles(name, self._lowering.definitions)
            self._lines.append(f"{name} ::= {self._alternatives(delimit(body))}")
        return "\n".join([f"root ::= {root}", *self._lines, ""])

    def _node(self, node: RuleNode) -> str:
        """A node as part of a sequence."""
        cached = self._emitted.get(id(node))
        if cached is None:
            cached = self._emitted[id(node)] = (node, self._render(node))
        return cached[1]

    def _render(self, node: RuleNode) -> str:
        match node:
            case Text(text):
                return literal(text)
            case Chars(ranges, negated):
                return char_class(ranges, negated)
            case Seq(parts):
                return self._sequence(parts)
            case OneOf():
                return self._name_for("o", self._alternatives(node))
            case Repeat():
                return self._repeat(node)
            case Ref(name):
                return self._reference(name)
            case Prose() | Until() | Str():
                return self._free_text(node)
            case AdditionalKey():
                key = key_automaton(node)
                pieces = (literal(key.before), self._automaton(node, key.automaton), literal(key.after))
                return " ".join(piece for piece in pieces if piece != '""')
            case _:
                raise AssertionError(f"{node} was not lowered")

    def _alternatives(self, node: RuleNode) -> str:
        options = node.options if isinstance(node, OneOf) else (node,)
        return " | ".join(dict.fromkeys(map(self._node, options))) or NOTHING

    def _sequence(self, parts: tuple[RuleNode, ...]) -> str:
        rendered = [self._node(part) for part in parts]
        if len(rendered) > 2 and isinstance(parts[0], Text):
            # Calls differ in their first text, because free text before them may include part of it. The rest is
            # the same, so it becomes a shared rule.
            rest = " ".join(rendered[1:])
            return f"{rendered[0]} {self._name_for('t', rest) if len(rest) > _MIN_NAMED_LENGTH else rest}"
        return " ".join(rendered) or '""'

    def _repeat(self, node: Repeat) -> str:
        at_least, at_most = _bounds(node.at_least, node.at_most, _MAX_REPEATS)
        if at_most == 0:
            return '""'
        body = self._node(node.node)
        if not isinstance(node.node, Text | Chars | OneOf | Ref):
            body = self._name_for("r", body)
        if not node.sep:
            return body + quantifier(at_least, at_most)
        again = self._name_for("r", f"{literal(node.sep)} {body}")
        more = None if at_most is None else at_most - 1
        many = f"{body} {again}{quantifier(max(0, at_least - 1), more)}" if more != 0 else body
        return many if at_least else self._name_for("r", many) + "?"

    def _reference(self, name: str) -> str:
        if name not in self._defined:
            self._defined.add(name)
            self._pending.append(name)
        return name

    def _free_text(self, node: Prose | Until | Str) -> str:
        match node:
            case Prose():
                return self._automaton(countable := _countable(node), prose_automaton(countable))
            case Until():
                return self._automaton(countable := _countable(node), until_automaton(countable))
            case Str(quote, at_least, at_most, _, excludes) if not excludes:
                char = self._automaton(quote, character_automaton(quote))
                count = quantifier(*_bounds(at_least, at_most, _MAX_REPEATS))
                return f"{literal(quote.open)} {char}{count} {literal(quote.close)}"
            case Str(quote, at_least, at_most):
                at_least, at_most = _bounds(at_least, at_most, _max_counted(node))
                countable = replace(node, at_least=at_least, at_most=at_most, pattern=None)
                return f"{literal(quote.open)} {self._automaton(countable, string_automaton(countable))}"

    def _automaton(self, key: Hashable, automaton: Automaton) -> str:
        """Write one rule for each state; returns the name of the first state's rule."""
        name = self._names.get(key)
        if name is None:
            prefix = f"a{len(self._names)}"
            name = self._names[key] = f"{prefix}-0"
            for number, moves in enumerate(automaton.transitions):
                options = [
                    self._node(move.chars) + ("" if move.target is None else f" {prefix}-{move.target}")
                    for move in moves
                ]
                options.extend(['""'] if number in automaton.accepting else [])
                self._lines.append(f"{prefix}-{number} ::= {' | '.join(options) or NOTHING}")
        return name

    def _name_for(self, prefix: str, body: str) -> str:
        name = self._names.get(body)
        if name is None:
            name = self._names[body] = f"{prefix}{len(self._names)}"
            self._lines.append(f"{name} ::= {body}")
        return name


def _without_unit_cycles(name: str, definitions: Mapping[str, RuleNode]) -> RuleNode:
    """A definition without the alternatives that lead back to it and nothing else, directly or through others."""

    def leads_back(node: RuleNode, visited: frozenset[str]) -> bool:
        match node:
            case Ref(to):
                return to == name or (to not in visited and leads_back(definitions[to], visited | {to}))
            case OneOf(options):
                return any(leads_back(option, visited) for option in options)
            case _:
                return False

    def remaining_options(node: RuleNode, visited: frozenset[str]) -> list[RuleNode]:
        match node:
            case Ref(to) if leads_back(node, frozenset()):
                return [] if to in visited else remaining_options(definitions[to], visited | {to})
            case OneOf(options):
                return [option for inner in options for option in remaining_options(inner, visited)]
            case _:
                return [node]

    return (
        one_of(*remaining_options(definitions[name], frozenset({name})))
        if leads_back(definitions[name], frozenset())
        else (definitions[name])
    )


def _max_counted(node: Prose | Until | Str) -> int:
    return min(_MAX_COUNTED, _MAX_STATES // max(1, sum(map(len, node.excludes))))


def _countable(node: _FreeText) -> _FreeText:
    """The node without its length limit, if an automaton could not count that far."""
    _, at_most = _bounds(0, node.at_most, _max_counted(node))
    return replace(node, at_most=at_most)


def _bounds(at_least: int, at_most: int | None, limit: int) -> tuple[int, int | None]:
    """Bounds that the target can count to. Contradictory ones are relaxed, because they would make the engine fail."""
    return min(at_least, limit), None if at_most is None or at_most > limit else max(at_least, at_most)
