"""Delimit free text: make explicit where it ends.

A rule contains free text before a marker. A matcher that reads text greedily would consume the marker as well. So every
`Prose` that is followed by something becomes an `Until`: text up to and including the first marker. The marker is then
removed from what follows.
"""

from __future__ import annotations

from ferrule.errors import FormatError
from ferrule.rules.rule import EMPTY, OneOf, Prose, Repeat, RuleNode, Seq, Shared, Str, Text, Until, one_of, seq
from ferrule.schema.notation import Escapes


def delimit(node: RuleNode) -> RuleNode:
    """The same language, with `Prose` only in positions where nothing follows it."""
    match node:
        case Seq(parts):
            return _sequence(list(parts)) if any(map(_has_free_text, parts)) else node
        case OneOf(options):
            return one_of(*map(delimit, options)) if any(map(_has_free_text, options)) else node
        case Repeat(inner, at_least, at_most, sep):
            return Repeat(delimit(inner), at_least, at_most, sep) if _has_free_text(inner) else node
        case Str(quote) if quote.escapes is Escapes.NONE:
            return _raw_string(node)
        case _:
            return node


def _has_free_text(node: RuleNode) -> bool:
    match node:
        case Seq(parts):
            return any(map(_has_free_text, parts))
        case OneOf(options):
            return any(map(_has_free_text, options))
        case Repeat(inner):
            return _has_free_text(inner)
        case Str(quote):
            return quote.escapes is Escapes.NONE
        case _:
            return isinstance(node, Prose)


def _raw_string(node: Str) -> RuleNode:
    close = node.quote.close
    return seq(node.quote.open, Until(close, (close, *node.excludes), at_most=node.at_most))


def _sequence(parts: list[RuleNode]) -> RuleNode:
    result: list[RuleNode] = []
    while parts:
        part = parts.pop(0)
        rest = seq(*parts)
        if rest != EMPTY and ends_in_prose(part):
            if isinstance(part, Prose):
                until, rest = _until(part, rest)
                return seq(*result, until, delimit(rest))
            return seq(*result, delimit(_push_down(part, rest)))
        result.append(delimit(part))
    return seq(*result)


def _until(prose: Prose, rest: RuleNode) -> tuple[RuleNode, RuleNode]:
    # The text ends at the first excluded marker in what follows; of two at the same position, the longer one counts.
    lead = leading_text(rest)
    ends = [(lead.find(marker), -len(marker)) for marker in prose.excludes if marker in lead]
    if not ends:
        raise FormatError(f"no marker ends the free text before {lead[:40]!r}")
    at, size = min(ends)
    end = lead[: at - size]
    return Until(end, prose.excludes, prose.not_first, prose.at_most), drop_leading_text(rest, len(end))


def ends_in_prose(node: RuleNode) -> bool:
    """Whether something that the node admits may end in free text."""
    match node:
        case Prose():
            return True
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
            return _leading_text_of_parts(parts)
        case OneOf(options):
            return _common_prefix([leading_text(option) for option in options])
        case Repeat(inner, at_least) if at_least > 0:
            return leading_text(inner)
        case Shared(inner):
            return leading_text(inner)
        case _:
            return ""


def _leading_text_of_parts(parts: tuple[RuleNode, ...]) -> str:
    if not parts:
        return ""
    lead = leading_text(parts[0])
    return lead + _leading_text_of_parts(parts[1:]) if isinstance(parts[0], Text) else lead


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
