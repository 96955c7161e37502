"""Rule: what a model may write, as a tree that is independent of any grammar language.

Leaves refer to schemas and notations, not to a target. Each target expresses them as well as it can and reports what it
cannot enforce.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any, TypeAlias, cast

from ferrule.core.json_text import dumps
from ferrule.core.text_grammar import TextGrammar
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
    """A node repeated, with `sep` between. `at_most` of None means no upper bound."""

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
    """A string with its quotes, without any of `excludes` inside. `pattern` is a linear-time regex."""

    quote: Quote
    at_least: int = 0
    at_most: int | None = None
    pattern: str | None = None
    excludes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """A value of a schema, in a notation. `root` is the schema that local references point into.

    `excludes` are texts that must not occur anywhere in it, because the parser would read them as structure.
    `any_order` allows an object's members in any order, on targets that support it.
    """

    schema: Any
    root: Mapping[str, Any]
    notation: Notation = JSON
    excludes: tuple[str, ...] = ()
    any_order: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Raw:
    """A value as raw text, typed by its schema: a string without quotes, anything else as JSON."""

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
class GrammarText:
    """A text that matches a client's grammar, up to and including `end`, and contains none of `excludes` before it.

    It is written inside of `quote`, without the quotes themselves; raw if there are none.
    """

    grammar: TextGrammar
    quote: Quote | None
    excludes: tuple[str, ...] = ()
    end: str = ""


@dataclass(frozen=True, slots=True)
class AdditionalKey:
    """The key of a member that the schema does not list, with the text before and after it.

    `name` is a string in quotes, a run of characters, or free text. It is none of the `listed` names, given as they are
    written. The key is one unit, because a lexer must tell it from the listed keys, which may begin with the same text.
    """

    begin: str
    name: Str | Repeat | Prose
    end: str
    listed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ref:
    """A definition by name, for schemas that contain themselves."""

    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Shared:
    """A self-contained part, which a target may emit once under a name and cache for other rules.

    It does not end in free text, and it does not begin with a text that could be read as the end of what precedes it.
    """

    node: RuleNode
    _fingerprint: str = field(default="", init=False, repr=False)

    @property
    def fingerprint(self) -> str:
        """The hash of its node, computed once: the rules of many requests contain the same part."""
        if not self._fingerprint:
            object.__setattr__(self, "_fingerprint", fingerprint_of(self.node))
        return self._fingerprint


RuleNode: TypeAlias = (
    Text
    | Chars
    | Repeat
    | Seq
    | OneOf
    | Prose
    | Str
    | Value
    | Raw
    | Members
    | Until
    | GrammarText
    | AdditionalKey
    | Ref
    | Shared
)

EMPTY = Text("")

_GRAMMAR = "x-grammar"


class _GrammarKeyword(dict[str, str]):
    """The value of the keyword. A client's schema may have a keyword of that name too, which means nothing."""


def schema_with_grammar(parameters: Mapping[str, Any], name: str, grammar: TextGrammar) -> dict[str, Any]:
    """The parameters of a custom tool, with a keyword for the grammar of its text, which only rules have."""
    text = {**parameters["properties"][name], _GRAMMAR: _GrammarKeyword(grammar.as_json())}
    return {**parameters, "properties": {**parameters["properties"], name: text}}


def grammar_of_schema(schema: Mapping[str, Any]) -> TextGrammar | None:
    """The grammar of a string's schema, if `schema_with_grammar` made it."""
    keyword = schema.get(_GRAMMAR)
    return TextGrammar.from_json(keyword) if isinstance(keyword, _GrammarKeyword) else None


def holds_grammar(schema: Any) -> bool:
    """Whether a schema, or one of its properties, has a grammar."""
    if not isinstance(schema, Mapping):
        return False
    fields = cast("Mapping[str, Any]", schema)
    properties = cast("Mapping[str, Any]", fields.get("properties") or {})
    return isinstance(fields.get(_GRAMMAR), _GrammarKeyword) or any(
        isinstance(inner, Mapping) and isinstance(cast("Mapping[str, Any]", inner).get(_GRAMMAR), _GrammarKeyword)
        for inner in properties.values()
    )


@dataclass(frozen=True, slots=True)
class Rule:
    """What a model may write.

    `start` is the whole reply. Engines with lazy grammars let the model write freely up to one of `triggers` and then
    apply `triggered`. `tokens` are texts for which the vocabulary may have a special token.
    """

    start: RuleNode
    triggers: tuple[str, ...] = ()
    triggered: RuleNode | None = None
    tokens: tuple[str, ...] = ()

    @property
    def fingerprint(self) -> str:
        return fingerprint_of(self.start)


def fingerprint_of(node: RuleNode) -> str:
    """A hash of a node. Two nodes share it only if they have the same structure."""
    roots: dict[int, Mapping[str, Any]] = {}
    described = _describe(node, roots)
    # Every argument of a tool refers to the tool's whole schema, which is written once. Members are allowed in the
    # schema's order, so keys are not sorted.
    text = dumps([described, *map(dict, roots.values())])
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def seq(*parts: RuleNode | str) -> RuleNode:
    """A sequence of nodes, without empty ones and with neighbouring texts joined."""
    flat: list[RuleNode] = []
    text = ""
    # The rule of a large tool set takes tens of thousands of these, so there is one loop and no generator. Only at the
    # ends of a sequence can a text have a new neighbour.
    for part in parts:
        if isinstance(part, str):
            text += part
        elif isinstance(part, Text):
            text += part.text
        else:
            nodes = part.parts if isinstance(part, Seq) else (part,)
            if nodes and isinstance(nodes[0], Text):
                text += nodes[0].text
                nodes = nodes[1:]
            if not nodes:
                continue
            if text:
                flat.append(Text(text))
                text = ""
            if isinstance(nodes[-1], Text):
                text = nodes[-1].text
                nodes = nodes[:-1]
            flat += nodes
    if text:
        flat.append(Text(text))
    if not flat:
        return EMPTY
    return flat[0] if len(flat) == 1 else Seq(tuple(flat))


def one_of(*options: RuleNode) -> RuleNode:
    """A choice between nodes; a single option is returned as it is."""
    return options[0] if len(options) == 1 else OneOf(options)


def identity(node: RuleNode) -> RuleNode:
    """The node itself: a function for `share` that shares nothing."""
    return node


def maybe(node: RuleNode) -> RuleNode:
    """The node, or nothing."""
    return Repeat(node, 0, 1)


def once(node: RuleNode) -> RuleNode:
    """A node that stays one unit inside a sequence, so that a target may emit it as one terminal."""
    return Repeat(node, 1, 1)


def prepend_text(text: str, node: RuleNode) -> RuleNode:
    """The node with a text before it, joined with the node's own leading text in each of its options.

    A lexer that prefers the longest literal must never see one literal that is a prefix of another.
    """
    match node:
        case OneOf(options):
            return one_of(*(prepend_text(text, option) for option in options))
        case Text(own):
            return Text(text + own)
        case Seq(parts) if parts and isinstance(parts[0], Text):
            return Seq((Text(text + parts[0].text), *parts[1:]))
        case Seq(parts) if parts:
            return seq(prepend_text(text, parts[0]), *parts[1:])
        case AdditionalKey(begin):
            return replace(node, begin=text + begin)
        case _:
            return seq(text, node)


def in_order(
    elements: Sequence[tuple[bool, RuleNode]],
    sep: str,
    share: Callable[[RuleNode], RuleNode],
    last: RuleNode | None = None,
    if_empty: RuleNode | None = None,
) -> RuleNode:
    """Elements in order with `sep` between; those that are not required may be missing.

    The first written element has no separator before it, so there is one option for each element that may come first.
    Without shared tails the size would be quadratic.

    Args:
        elements: Each element, and whether it is required.
        sep: The separator.
        share: Gives a name to a tail that several options have in common.
        last: What follows the elements; it brings its own separator.
        if_empty: What is written if no element is.
    """
    if not sep:
        return seq(*(element if required else maybe(element) for required, element in elements), last or EMPTY)
    if not elements:
        return if_empty or last or EMPTY
    tails: list[RuleNode] = [last or EMPTY]
    for required, element in reversed(elements[1:]):
        part = prepend_text(sep, element)
        tails.append(share(seq(part if required else maybe(part), tails[-1])))
    tails.reverse()
    options: list[RuleNode] = []
    for (required, element), tail in zip(elements, tails, strict=True):
        options.append(seq(element, tail))
        if required:
            return one_of(*options)
    return one_of(*options, if_empty or EMPTY)


def map_children(node: RuleNode, change: Callable[[RuleNode], RuleNode]) -> RuleNode:
    """The node with `change` applied to its parts; a leaf, or a node whose parts all stay, is returned unchanged."""
    match node:
        case Text():
            return node
        case Seq(parts):
            changed = tuple(map(change, parts))
            return node if are_same(changed, parts) else seq(*changed)
        case OneOf(options):
            changed = tuple(map(change, options))
            return node if are_same(changed, options) else one_of(*changed)
        case Repeat(inner, at_least, at_most, sep):
            only = change(inner)
            return node if only is inner else Repeat(only, at_least, at_most, sep)
        case _:
            return node


def are_same(nodes: Sequence[RuleNode], others: Sequence[RuleNode]) -> bool:
    """Whether two sequences of the same length hold the very same nodes."""
    return all(map(operator.is_, nodes, others))


def inline_shared(node: RuleNode) -> RuleNode:
    """The node with every shared part inlined, for a target that has no named rules."""
    return inline_shared(node.node) if isinstance(node, Shared) else map_children(node, inline_shared)


def _describe(node: RuleNode, roots: dict[int, Mapping[str, Any]]) -> object:
    """A JSON value that differs whenever the nodes differ. Whole schemas are added to `roots`, by their `id`."""
    match node:
        case Seq(parts):
            return ["seq", *(_describe(part, roots) for part in parts)]
        case OneOf(options):
            return ["one_of", *(_describe(option, roots) for option in options)]
        case Repeat(inner, at_least, at_most, sep):
            return ["repeat", _describe(inner, roots), at_least, at_most, sep]
        case Value(schema, root, notation, excludes, any_order):
            own = None if schema is root else [schema]
            order = ["any order"] if any_order else []
            return ["value", own, _number_of(root, roots), notation.name, excludes, *order]
        case Raw(schema, root, excludes):
            return ["raw", schema, _number_of(root, roots), excludes]
        case Members(schema, notation, opener, container, sorts_keys):
            brackets = [container.close, container.json_open, container.json_close, container.assign]
            return ["members", _number_of(schema, roots), notation.name, opener, brackets, sorts_keys]
        case Str(quote, at_least, at_most, pattern, excludes):
            return ["str", _describe_quote(quote), at_least, at_most, pattern, excludes]
        case Text(text):
            return text
        case Chars(ranges, negated):
            return ["chars", ranges, negated]
        case Prose(excludes, not_first, at_most):
            return ["prose", excludes, not_first, at_most]
        case Until(end, excludes, not_first, at_most):
            return ["until", end, excludes, not_first, at_most]
        case GrammarText(grammar, quote, excludes, end):
            return ["grammar", grammar.as_json(), quote and _describe_quote(quote), excludes, end]
        case AdditionalKey(begin, name, end, listed):
            return ["additional key", begin, _describe(name, roots), end, listed]
        case Ref(name):
            return ["ref", name]
        case Shared():
            return ["shared", node.fingerprint]


def _describe_quote(quote: Quote) -> list[str]:
    return [quote.open, quote.close, quote.escapes.name, quote.ends_before]


def _number_of(root: Mapping[str, Any], roots: dict[int, Mapping[str, Any]]) -> int:
    roots.setdefault(id(root), root)
    return list(roots).index(id(root))
