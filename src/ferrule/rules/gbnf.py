"""GBNF for llama.cpp. Everything is lowered, JSON too, and free text becomes automata of right-linear rules.

Wider than the rule, and so left to the validator: `pattern`; lengths and counts beyond `_MOST_REPEATS`; lengths of free
text and of strings with excluded texts beyond `_MOST_COUNTED`, or whose automaton would grow past `_MOST_STATES`.
Narrower than JSON: an escaped surrogate comes in pairs. The engine itself never writes a NUL character.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from ferrule.rules.automaton import (
    Automaton,
    character_automaton,
    prose_automaton,
    string_automaton,
    until_automaton,
)
from ferrule.rules.gbnf_literals import NOTHING, char_class, literal
from ferrule.rules.lowering import Lowering
from ferrule.rules.repetition import times
from ferrule.rules.rule import (
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
from ferrule.rules.text_delimiters import delimited

# llama.cpp refuses a grammar in which a repetition times what it repeats comes to 2000.
_MOST_REPEATS = 512
_MOST_COUNTED = 64
_MOST_STATES = 1024
# Shorter than this, a piece that is used twice costs less than a name for it.
_WORTH_A_NAME = 40
_Free = TypeVar("_Free", Prose, Until)


@dataclass(frozen=True, slots=True)
class Gbnf:
    """`text` is the whole grammar. Engines that can wait for one of `triggers` take `triggered` from there on.

    What llama.cpp matches after a trigger begins with the trigger itself, and so does `triggered`.
    """

    text: str
    triggers: tuple[str, ...] = ()
    triggered: str | None = None


def emit_gbnf(rule: Rule) -> Gbnf:
    """The grammar of a rule; it never contains left recursion, which llama.cpp refuses."""
    emitter = _Emitter()
    start = emitter.prepared(rule.start)
    if rule.triggered is None:
        return Gbnf(emitter.grammar(start), rule.triggers)
    # The rules of the smaller grammar are rules of the larger one, so they are written once.
    triggered = emitter.grammar(emitter.prepared(rule.triggered))
    return Gbnf(emitter.grammar(start), rule.triggers, triggered)


class _Emitter:
    def __init__(self) -> None:
        self._lowering = Lowering()
        self._emitted: dict[int, tuple[RuleNode, str]] = {}
        self._lines: list[str] = []
        self._names: dict[Hashable, str] = {}
        self._wanted: list[str] = []
        self._defined: set[str] = set()

    def prepared(self, node: RuleNode) -> RuleNode:
        return delimited(self._lowering.lower(node))

    def grammar(self, start: RuleNode) -> str:
        root = self._node(start)
        while self._wanted:
            name = self._wanted.pop()
            body = _without_unit_cycles(name, self._lowering.definitions)
            self._lines.append(f"{name} ::= {self._alternatives(delimited(body))}")
        return "\n".join([f"root ::= {root}", *self._lines, ""])

    def _node(self, node: RuleNode) -> str:
        """A node as part of a sequence."""
        known = self._emitted.get(id(node))
        if known is None:
            known = self._emitted[id(node)] = (node, self._written(node))
        return known[1]

    def _written(self, node: RuleNode) -> str:
        match node:
            case Text(text):
                return literal(text)
            case Chars(ranges, negated):
                return char_class(ranges, negated)
            case Seq(parts):
                return self._sequence(parts)
            case OneOf():
                return self._named("o", self._alternatives(node))
            case Repeat():
                return self._repeat(node)
            case Ref(name):
                return self._reference(name)
            case Prose() | Until() | Str():
                return self._free(node)
            case _:
                raise AssertionError(f"{node} was not lowered")

    def _alternatives(self, node: RuleNode) -> str:
        options = node.options if isinstance(node, OneOf) else (node,)
        return " | ".join(dict.fromkeys(map(self._node, options))) or NOTHING

    def _sequence(self, parts: tuple[RuleNode, ...]) -> str:
        written = [self._node(part) for part in parts]
        if len(written) > 2 and isinstance(parts[0], Text):
            # Calls differ in how they begin, by what free text before them has taken already; the rest is shared.
            rest = " ".join(written[1:])
            return f"{written[0]} {self._named('t', rest) if len(rest) > _WORTH_A_NAME else rest}"
        return " ".join(written) or '""'

    def _repeat(self, node: Repeat) -> str:
        at_least, at_most = _bounds(node.at_least, node.at_most, _MOST_REPEATS)
        if at_most == 0:
            return '""'
        body = self._node(node.node)
        if not isinstance(node.node, Text | Chars | OneOf | Ref):
            body = self._named("r", body)
        if not node.sep:
            return body + times(at_least, at_most)
        again = self._named("r", f"{literal(node.sep)} {body}")
        more = None if at_most is None else at_most - 1
        many = f"{body} {again}{times(max(0, at_least - 1), more)}" if more != 0 else body
        return many if at_least else self._named("r", many) + "?"

    def _reference(self, name: str) -> str:
        if name not in self._defined:
            self._defined.add(name)
            self._wanted.append(name)
        return name

    def _free(self, node: Prose | Until | Str) -> str:
        match node:
            case Prose():
                return self._automaton(counted := _counted(node), prose_automaton(counted))
            case Until():
                return self._automaton(counted := _counted(node), until_automaton(counted))
            case Str(quote, at_least, at_most, _, excludes) if not excludes:
                char = self._automaton(quote, character_automaton(quote))
                count = times(*_bounds(at_least, at_most, _MOST_REPEATS))
                return f"{literal(quote.open)} {char}{count} {literal(quote.close)}"
            case Str(quote, at_least, at_most):
                at_least, at_most = _bounds(at_least, at_most, _most_counted(node))
                counted = replace(node, at_least=at_least, at_most=at_most, pattern=None)
                return f"{literal(quote.open)} {self._automaton(counted, string_automaton(counted))}"

    def _automaton(self, key: Hashable, automaton: Automaton) -> str:
        """The rule of the first state; one rule for each state."""
        name = self._names.get(key)
        if name is None:
            prefix = f"a{len(self._names)}"
            name = self._names[key] = f"{prefix}-0"
            for number, moves in enumerate(automaton.moves):
                options = [
                    self._node(move.chars) + ("" if move.target is None else f" {prefix}-{move.target}")
                    for move in moves
                ]
                options.extend(['""'] if number in automaton.may_stop else [])
                self._lines.append(f"{prefix}-{number} ::= {' | '.join(options) or NOTHING}")
        return name

    def _named(self, prefix: str, body: str) -> str:
        name = self._names.get(body)
        if name is None:
            name = self._names[body] = f"{prefix}{len(self._names)}"
            self._lines.append(f"{name} ::= {body}")
        return name


def _without_unit_cycles(name: str, definitions: Mapping[str, RuleNode]) -> RuleNode:
    """A definition without the options that are only itself again, perhaps by way of others."""

    def leads_back(node: RuleNode, passed: frozenset[str]) -> bool:
        match node:
            case Ref(to):
                return to == name or (to not in passed and leads_back(definitions[to], passed | {to}))
            case OneOf(options):
                return any(leads_back(option, passed) for option in options)
            case _:
                return False

    def kept(node: RuleNode, passed: frozenset[str]) -> list[RuleNode]:
        match node:
            case Ref(to) if leads_back(node, frozenset()):
                return [] if to in passed else kept(definitions[to], passed | {to})
            case OneOf(options):
                return [option for inner in options for option in kept(inner, passed)]
            case _:
                return [node]

    return (
        one_of(*kept(definitions[name], frozenset({name})))
        if leads_back(definitions[name], frozenset())
        else (definitions[name])
    )


def _most_counted(node: Prose | Until | Str) -> int:
    return min(_MOST_COUNTED, _MOST_STATES // max(1, sum(map(len, node.excludes))))


def _counted(node: _Free) -> _Free:
    """A node without a limit that its automaton could not count to."""
    _, at_most = _bounds(0, node.at_most, _most_counted(node))
    return replace(node, at_most=at_most)


def _bounds(at_least: int, at_most: int | None, most: int) -> tuple[int, int | None]:
    """Bounds that the target can count to. Those that leave nothing over are widened: an engine would only fail."""
    return min(at_least, most), None if at_most is None or at_most > most else max(at_least, at_most)
