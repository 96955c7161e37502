"""Rule: exactly what a model may write, as a tree that no grammar language is needed to read.

Leaves speak of schemas and notations, not of any target; each target says them as well as it can and reports the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ferrule.core.json_text import fingerprint
from ferrule.schema.notation import JSON, Container, Notation, Quote


@dataclass(frozen=True, slots=True)
class Text:
    """Exactly this text."""

    text: str


@dataclass(frozen=True, slots=True)
class Chars:
    """One character inside these ranges, or outside of them all."""

    ranges: tuple[tuple[str, str], ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Repeat:
    """Something again and again, `sep` between; None is no upper bound."""

    node: RuleNode
    at_least: int = 0
    at_most: int | None = None
    sep: str = ""


@dataclass(frozen=True, slots=True)
class Seq:
    parts: tuple[RuleNode, ...]


@dataclass(frozen=True, slots=True)
class OneOf:
    options: tuple[RuleNode, ...]


@dataclass(frozen=True, slots=True)
class Prose:
    """Free text that contains none of `excludes` and does not begin with one of the characters `not_first`."""

    excludes: tuple[str, ...] = ()
    not_first: str = ""
    at_most: int | None = None


@dataclass(frozen=True, slots=True)
class Str:
    """A string in some quotes, both quotes included; `excludes` may not stand inside. `pattern` is a linear regex."""

    quote: Quote
    at_least: int = 0
    at_most: int | None = None
    pattern: str | None = None
    excludes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """A value of a schema, in a notation. `root` is the schema that local references point into.

    `excludes` are texts that may not stand anywhere in it, because the parser would take them for structure.
    `any_order` leaves the order of an object's members open, on a target that can say so.
    """

    schema: Any
    root: Mapping[str, Any]
    notation: Notation = JSON
    excludes: tuple[str, ...] = ()
    any_order: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Raw:
    """A value as raw text, typed by its schema: a string as it is, anything else as JSON."""

    schema: Any
    root: Mapping[str, Any]
    excludes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Members:
    """The arguments of a tool as `opener key assign value, ... close`, in a notation that is not JSON's own."""

    schema: Mapping[str, Any]
    notation: Notation
    opener: str
    container: Container
    sorts_keys: bool = False


@dataclass(frozen=True, slots=True)
class Until:
    """Free text up to and including the first `end`, with none of `excludes` before it."""

    end: str
    excludes: tuple[str, ...] = ()
    not_first: str = ""
    at_most: int | None = None


@dataclass(frozen=True, slots=True)
class Ref:
    """A definition by name, for schemas that contain themselves."""

    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Shared:
    """A part that stands by itself, so that a target may write it once, under a name, and keep it for other rules.

    It neither ends in free text nor begins with a text that what stands before it could take for its own end.
    """

    node: RuleNode


RuleNode: TypeAlias = Text | Chars | Repeat | Seq | OneOf | Prose | Str | Value | Raw | Members | Until | Ref | Shared

EMPTY = Text("")


@dataclass(frozen=True, slots=True)
class Rule:
    """`start` is what may be written. With `triggers`, anything may be written until one of them, then `triggered`.

    `tokens` are texts that the vocabulary may have a token of its own for.
    """

    start: RuleNode
    triggers: tuple[str, ...] = ()
    triggered: RuleNode | None = None
    tokens: tuple[str, ...] = ()

    @property
    def fingerprint(self) -> str:
        return fingerprint_of(self.start)


def fingerprint_of(node: RuleNode) -> str:
    """A short name that two nodes share only if they admit the same for the same reason."""
    return fingerprint(_described(node))


def seq(*parts: RuleNode | str) -> RuleNode:
    """Nodes in a row, without empty ones, neighbouring texts as one."""
    flat: list[RuleNode] = []
    for part in _flattened(parts):
        if isinstance(part, Text) and flat and isinstance(flat[-1], Text):
            flat[-1] = Text(flat[-1].text + part.text)
        elif part != EMPTY:
            flat.append(part)
    if not flat:
        return EMPTY
    return flat[0] if len(flat) == 1 else Seq(tuple(flat))


def one_of(*options: RuleNode) -> RuleNode:
    return options[0] if len(options) == 1 else OneOf(options)


def as_it_is(node: RuleNode) -> RuleNode:
    return node


def maybe(node: RuleNode) -> RuleNode:
    return Repeat(node, 0, 1)


def once(node: RuleNode) -> RuleNode:
    """A node that stays one piece when it is put in a row: what a target may write as one word."""
    return Repeat(node, 1, 1)


def prefixed(text: str, node: RuleNode) -> RuleNode:
    """A node behind a text that becomes one with the node's own leading text, in every option of it.

    A lexer that takes the longest literal must never meet one that is the beginning of another.
    """
    match node:
        case OneOf(options):
            return one_of(*(prefixed(text, option) for option in options))
        case Seq(parts) if parts:
            return seq(prefixed(text, parts[0]), *parts[1:])
        case _:
            return seq(text, node)


def in_order(
    elements: Sequence[tuple[bool, RuleNode]],
    sep: str,
    share: Callable[[RuleNode], RuleNode],
    last: RuleNode | None = None,
    alone: RuleNode | None = None,
) -> RuleNode:
    """Elements in a row with `sep` between, those that are not needed left out at will; `last` brings its own `sep`.

    What comes first is written without the separator, so there is one option for each element that may come first;
    `share` gives a name to what they have in common, and `alone` is what stands there when no element does.
    """
    if not sep:
        return seq(*(element if needed else maybe(element) for needed, element in elements), last or EMPTY)
    if not elements:
        return alone or last or EMPTY
    tails: list[RuleNode] = [last or EMPTY]
    for needed, element in reversed(elements[1:]):
        part = prefixed(sep, element)
        tails.append(share(seq(part if needed else maybe(part), tails[-1])))
    tails.reverse()
    options: list[RuleNode] = []
    for (needed, element), tail in zip(elements, tails, strict=True):
        options.append(seq(element, tail))
        if needed:
            return one_of(*options)
    return one_of(*options, alone or EMPTY)


def rebuilt(node: RuleNode, change: Callable[[RuleNode], RuleNode]) -> RuleNode:
    """A node with its parts changed; a leaf as it is."""
    match node:
        case Seq(parts):
            return seq(*map(change, parts))
        case OneOf(options):
            return one_of(*map(change, options))
        case Repeat(inner, at_least, at_most, sep):
            return Repeat(change(inner), at_least, at_most, sep)
        case _:
            return node


def expanded(node: RuleNode) -> RuleNode:
    """The same language for a target that has no names: every shared part where it stands."""
    return expanded(node.node) if isinstance(node, Shared) else rebuilt(node, expanded)


def _flattened(parts: tuple[RuleNode | str, ...]) -> Iterator[RuleNode]:
    for part in parts:
        if isinstance(part, str):
            yield Text(part)
        elif isinstance(part, Seq):
            yield from part.parts
        else:
            yield part


def _described(node: RuleNode) -> object:
    """A JSON value that differs whenever the rule does."""
    match node:
        case Seq(parts):
            return ["seq", *map(_described, parts)]
        case OneOf(options):
            return ["one_of", *map(_described, options)]
        case Repeat(inner, at_least, at_most, sep):
            return ["repeat", _described(inner), at_least, at_most, sep]
        case Value(schema, root, notation, excludes, any_order):
            return ["value", schema, dict(root), notation.name, excludes, *(["any order"] if any_order else [])]
        case Raw(schema, root, excludes):
            return ["raw", schema, dict(root), excludes]
        case Members(schema, notation, opener, _, sorts_keys):
            return ["members", dict(schema), notation.name, opener, sorts_keys]
        case Str(quote, at_least, at_most, pattern, excludes):
            return ["str", quote.open, at_least, at_most, pattern, excludes]
        case Text(text):
            return text
        case Chars(ranges, negated):
            return ["chars", ranges, negated]
        case Prose(excludes, not_first, at_most):
            return ["prose", excludes, not_first, at_most]
        case Until(end, excludes, not_first, at_most):
            return ["until", end, excludes, not_first, at_most]
        case Ref(name):
            return ["ref", name]
        case Shared(inner):
            return _described(inner)
