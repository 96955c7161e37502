"""Delimit: say where free text ends.

A rule puts free text before a marker. A matcher that reads text greedily would swallow the marker, so every `Prose`
that something follows becomes an `Until`: text up to and including the first marker, and what follows loses that much.
"""

from __future__ import annotations

from ferrule.errors import FormatError
from ferrule.rules.rule import EMPTY, OneOf, Prose, Repeat, RuleNode, Seq, Shared, Str, Text, Until, one_of, seq
from ferrule.schema.notation import Escapes


def delimited(node: RuleNode) -> RuleNode:
    """The same language, in which `Prose` stands only where nothing follows."""
    match node:
        case Seq(parts):
            return _sequence(list(parts)) if any(map(_has_free_text, parts)) else node
        case OneOf(options):
            return one_of(*map(delimited, options)) if any(map(_has_free_text, options)) else node
        case Repeat(inner, at_least, at_most, sep):
            return Repeat(delimited(inner), at_least, at_most, sep) if _has_free_text(inner) else node
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
    done: list[RuleNode] = []
    while parts:
        part = parts.pop(0)
        rest = seq(*parts)
        if rest != EMPTY and ends_in_prose(part):
            if isinstance(part, Prose):
                until, rest = _until(part, rest)
                return seq(*done, until, delimited(rest))
            return seq(*done, delimited(_pushed(part, rest)))
        done.append(delimited(part))
    return seq(*done)


def _until(prose: Prose, rest: RuleNode) -> tuple[RuleNode, RuleNode]:
    lead = leading_text(rest)
    marks = [(lead.find(marker), -len(marker)) for marker in prose.excludes if marker in lead]
    if not marks:
        raise FormatError(f"nothing marks the end of free text before {lead[:40]!r}")
    at, size = min(marks)
    end = lead[: at - size]
    return Until(end, prose.excludes, prose.not_first, prose.at_most), without_lead(rest, len(end))


def ends_in_prose(node: RuleNode) -> bool:
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


def _pushed(node: RuleNode, rest: RuleNode) -> RuleNode:
    """What follows, moved into every option of a node that may end in free text."""
    match node:
        case OneOf(options):
            return one_of(*(seq(option, rest) for option in options))
        case Seq(parts):
            return seq(*parts[:-1], seq(parts[-1], rest))
        case Repeat(inner, 0, 1):
            return one_of(seq(inner, rest), rest)
        case _:
            raise FormatError("free text may not be repeated without a marker")


def leading_text(node: RuleNode) -> str:
    """The text that everything a node admits begins with."""
    match node:
        case Text(text):
            return text
        case Seq(parts):
            return _leading(parts)
        case OneOf(options):
            return _common([leading_text(option) for option in options])
        case Repeat(inner, at_least) if at_least > 0:
            return leading_text(inner)
        case Shared(inner):
            return leading_text(inner)
        case _:
            return ""


def _leading(parts: tuple[RuleNode, ...]) -> str:
    if not parts:
        return ""
    lead = leading_text(parts[0])
    return lead + _leading(parts[1:]) if isinstance(parts[0], Text) else lead


def _common(texts: list[str]) -> str:
    low, high = min(texts), max(texts)
    size = next((n for n, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), min(len(low), len(high)))
    return low[:size]


def without_lead(node: RuleNode, size: int) -> RuleNode:
    """A node without the first `size` characters of its leading text."""
    match node:
        case Text(text):
            return Text(text[size:])
        case Seq(parts):
            first = parts[0]
            taken = min(size, len(leading_text(first)))
            rest = seq(*parts[1:])
            if taken < size:
                return without_lead(rest, size - taken)
            return seq(without_lead(first, taken), rest)
        case OneOf(options):
            return one_of(*(without_lead(option, size) for option in options))
        case Repeat(inner, at_least, at_most, sep):
            more = None if at_most is None else at_most - 1
            again = EMPTY if more == 0 else Repeat(seq(sep, inner), max(0, at_least - 1), more)
            return seq(without_lead(inner, size), again)
        case Shared(inner) if size:
            return without_lead(inner, size)
        case _:
            return node
