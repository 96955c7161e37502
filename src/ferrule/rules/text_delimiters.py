"""Delimit free text: make explicit where it ends.

A rule contains free text before a marker. A matcher that reads text greedily would consume the marker as well. So every
`Prose` that is followed by something becomes an `Until`: text up to and including the first marker. The marker is then
removed from what follows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ferrule.errors import FormatError
from ferrule.rules.rule import (
    EMPTY,
    Chars,
    GrammarText,
    OneOf,
    Prose,
    Ref,
    Repeat,
    RuleNode,
    Seq,
    Shared,
    Str,
    Text,
    Until,
    Value,
    are_same,
    one_of,
    seq,
)
from ferrule.schema.notation import Escapes

# The leaves of most rules: a large tool set has tens of thousands of them.
_WITHOUT_FREE_TEXT = (Text, Ref, Chars, Shared, Value)


def delimit(node: RuleNode) -> RuleNode:
    """The same language, with `Prose` only in positions where nothing follows it."""
    return Delimiter().delimit(node)


class Delimiter:
    """Delimits any number of nodes. Nodes that have nothing to delimit are remembered: every tool has the same ones."""

    def __init__(self) -> None:
        # By `id`, which stays valid because the node is the value.
        self._unchanged: dict[int, RuleNode] = {}

    def delimit(self, node: RuleNode) -> RuleNode:
        """The same language, with `Prose` only in positions where nothing follows it."""
        if not self._holds_free_text(node):
            return node
        match node:
            case Seq(parts):
                return self._sequence(node, parts)
            case OneOf(options):
                delimited = tuple(map(self.delimit, options))
                return node if are_same(delimited, options) else one_of(*delimited)
            case Repeat(inner, at_least, at_most, sep):
                only = self.delimit(inner)
                return node if only is inner else Repeat(only, at_least, at_most, sep)
            case Str(quote) if quote.escapes is Escapes.NONE:
                return _raw_string(node)
            case _:
                return node

    def _holds_free_text(self, node: RuleNode) -> bool:
        if isinstance(node, _WITHOUT_FREE_TEXT):
            return False
        if isinstance(node, Seq):
            return any(map(self._holds_free_text, node.parts))
        if id(node) in self._unchanged:
            return False
        match node:
            case OneOf():
                holds = any(map(self._holds_free_text, node.options))
            case Repeat():
                holds = self._holds_free_text(node.node)
            case Str():
                holds = node.quote.escapes is Escapes.NONE
            case _:
                holds = isinstance(node, Prose | GrammarText)
        if not holds:
            self._unchanged[id(node)] = node
        return holds

    def _sequence(self, node: Seq, parts: tuple[RuleNode, ...]) -> RuleNode:
        if not any(map(ends_in_prose, parts[:-1])):
            delimited = tuple(map(self.delimit, parts))
            return node if are_same(delimited, parts) else seq(*delimited)
        result: list[RuleNode] = []
        remaining = list(parts)
        for number, part in enumerate(remaining):
            if not ends_in_prose(part) or all(map(_is_empty, remaining[number + 1 :])):
                result.append(self.delimit(part))
                continue
            following = remaining[number + 1]
            lead = _leading_text_of_parts(remaining, number + 1)
            until = _until(part, lead) if isinstance(part, Prose | GrammarText) else None
            if until is not None and isinstance(following, Text) and len(until.end) <= len(following.text):
                result.append(until)
                remaining[number + 1] = Text(following.text[len(until.end) :])
                continue
            rest = seq(*remaining[number + 1 :])
            if until is not None:
                return seq(*result, until, self.delimit(drop_leading_text(rest, len(until.end))))
            return seq(*result, self.delimit(_push_down(part, rest)))
        return node if are_same(result, parts) else seq(*result)


def _is_empty(node: RuleNode) -> bool:
    return isinstance(node, Text) and not node.text


def _raw_string(node: Str) -> RuleNode:
    close = node.quote.close
    return seq(node.quote.open, Until(close, (close, *node.excludes), at_most=node.at_most))


def _until(prose: Prose | GrammarText, lead: str) -> Until | GrammarText:
    """The text up to its end, which is the first excluded marker in the text that follows it.

    Of two at the same position, the longer one counts.
    """
    ends = [(lead.find(marker), -len(marker)) for marker in prose.excludes if marker in lead]
    if not ends:
        raise FormatError(f"no marker ends the free text before {lead[:40]!r}")
    at, size = min(ends)
    if isinstance(prose, GrammarText):
        return replace(prose, end=lead[: at - size])
    return Until(lead[: at - size], prose.excludes, prose.not_first, prose.at_most)


def ends_in_prose(node: RuleNode) -> bool:
    """Whether something that the node admits may end in free text."""
    match node:
        case Prose():
            return True
        case GrammarText(_, quote, _, end):
            return quote is None and not end
        case Seq(parts):
            return bool(parts) and ends_in_prose(parts[-1])
        case OneOf(options):
            return any(map(ends_in_prose, options))
        case Repeat(inner):
            return ends_in_prose(inner)
        case _:
            return False


def _push_down(node: RuleNode, rest: RuleNode) -> RuleNode:
    """Move what follows into every option of a node that may end in free text."""
    match node:
        case OneOf(options):
            return one_of(*(seq(option, rest) for option in options))
        case Seq(parts):
            return seq(*parts[:-1], seq(parts[-1], rest))
        case Repeat(inner, 0, 1):
            return one_of(seq(inner, rest), rest)
        case _:
            raise FormatError("free text cannot be repeated without a marker between")


def leading_text(node: RuleNode) -> str:
    """The text with which everything that a node admits begins."""
    match node:
        case Text(text):
            return text
        case Seq(parts):
            return _leading_text_of_parts(parts, 0)
        case OneOf(options):
            return _common_prefix([leading_text(option) for option in options])
        case Repeat(inner, at_least) if at_least > 0:
            return leading_text(inner)
        case Shared(inner):
            return leading_text(inner)
        case _:
            return ""


def _leading_text_of_parts(parts: Sequence[RuleNode], at: int) -> str:
    """The text with which everything begins that the parts from this one on admit."""
    lead = ""
    for part in parts[at:]:
        lead += leading_text(part)
        if not isinstance(part, Text):
            break
    return lead


def _common_prefix(texts: list[str]) -> str:
    low, high = min(texts), max(texts)
    size = next((n for n, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), min(len(low), len(high)))
    return low[:size]


def drop_leading_text(node: RuleNode, size: int) -> RuleNode:
    """The node without the first `size` characters of its leading text."""
    match node:
        case Text(text):
            return Text(text[size:])
        case Seq(parts):
            first = parts[0]
            dropped = min(size, len(leading_text(first)))
            rest = seq(*parts[1:])
            if dropped < size:
                return drop_leading_text(rest, size - dropped)
            return seq(drop_leading_text(first, dropped), rest)
        case OneOf(options):
            return one_of(*(drop_leading_text(option, size) for option in options))
        case Repeat(inner, at_least, at_most, sep):
            more = None if at_most is None else at_most - 1
            again = EMPTY if more == 0 else Repeat(seq(sep, inner), max(0, at_least - 1), more)
            return seq(drop_leading_text(inner, size), again)
        case Shared(inner) if size:
            return drop_leading_text(inner, size)
        case _:
            return node
