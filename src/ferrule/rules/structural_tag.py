"""xgrammar's structural tag: what vLLM and SGLang take as `structural_tag`.

The skeleton of a reply (markers, choices, calls one after another, free text) is written with the tag's own nodes. A
value is written as a `grammar` node: the tag's `json_schema` node cannot be told which white space to write, and takes
any. What the lowered value does not say is left to the validator.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from ferrule.rules.automaton import shortest
from ferrule.rules.ebnf import ebnf_of
from ferrule.rules.lowering import Lowering
from ferrule.rules.rule import (
    Chars,
    OneOf,
    Prose,
    Raw,
    Repeat,
    Rule,
    RuleNode,
    Seq,
    Text,
    expanded,
    maybe,
    one_of,
    rebuilt,
    seq,
)
from ferrule.rules.text_delimiters import delimited, leading_text

Tag: TypeAlias = dict[str, Any]


def emit_structural_tag(rule: Rule) -> Tag:
    """The value of `structural_tag` for a rule, ready for JSON."""
    start = _with_free_text(expanded(rule.start))
    # The engine reads every way of cutting a text at once, so free text needs no end of its own, unless a marker could
    # begin in the text and end in what follows: the parser would see that one first.
    once = _with_calls_once(start)
    return {"type": "structural_tag", "format": _format(delimited(start) if _straddles(once, "") else once)}


def _with_free_text(node: RuleNode) -> RuleNode:
    """Raw strings as the free text that they are; other leaves untouched."""
    if not isinstance(node, Raw):
        return rebuilt(node, _with_free_text)
    lowered = Lowering().lower(node)
    return lowered if isinstance(lowered, Prose) else node


def _with_calls_once(node: RuleNode) -> RuleNode:
    """`text calls | calls` as `(text)? calls`: a tag has no names, so what is said twice is written twice."""
    match node:
        case OneOf((Seq(talked), called)) if (head := _before(talked, called)) is not None:
            return seq(maybe(head), called)
        case OneOf(options):
            return one_of(*map(_with_calls_once, options))
        case Seq(parts):
            return seq(*map(_with_calls_once, parts))
        case _:
            return node


def _before(whole: tuple[RuleNode, ...], called: RuleNode) -> RuleNode | None:
    """What stands in a row of nodes before the calls, if it ends in them."""
    ending = called.parts if isinstance(called, Seq) else (called,)
    at = len(whole) - len(ending)
    if at < 0 or whole[at + 1 :] != ending[1:]:
        return None
    match whole[at], ending[0]:
        case Text(text), Text(last) if text.endswith(last):
            return seq(*whole[:at], text.removesuffix(last))
        case node, first:
            return seq(*whole[:at]) if node == first else None


def _straddles(node: RuleNode, follows: str) -> bool:
    """Whether some marker could begin in free text and end in the text that follows it."""
    match node:
        case Prose(excludes):
            return any(_begins_before(marker, follows) for marker in shortest(excludes))
        case Seq(parts):
            return any(
                _straddles(part, leading_text(seq(*parts[number + 1 :], follows)))
                for number, part in enumerate(parts)
                if not isinstance(part, Text)
            )
        case OneOf(options):
            return any(_straddles(option, follows) for option in options)
        case Repeat(inner, _, at_most, sep):
            is_again = at_most != 1 and _straddles(inner, leading_text(seq(sep, inner)))
            return is_again or _straddles(inner, follows)
        case _:
            return False


def _begins_before(marker: str, follows: str) -> bool:
    return any(follows[: len(marker) - size] == marker[size:] for size in range(1, len(marker)))


def _format(node: RuleNode) -> Tag:
    match node:
        case Text(text):
            return _const(text)
        case Prose(excludes, "", at_most):
            counted = {} if at_most is None else {"max_chars": at_most}
            return {"type": "any_text", "excludes": list(shortest(excludes)), **counted}
        case Seq(parts) if not _is_spelled(node):
            return _sequence(map(_format, parts))
        case OneOf(options) if not _is_spelled(node):
            return {"type": "or", "elements": [_format(option) for option in options]}
        case Repeat(inner) if not _is_spelled(inner):
            return _repeat(node)
        case _:
            return {"type": "grammar", "grammar": ebnf_of(node)}


def _repeat(node: Repeat) -> Tag:
    if node.sep and node.at_least <= 1 and node.at_most is None:
        options = node.node.options if isinstance(node.node, OneOf) else (node.node,)
        tags = [_tag(option) for option in options]
        return {
            "type": "tags_with_separator",
            "tags": tags,
            "separator": node.sep,
            "at_least_one": node.at_least == 1,
        }
    inner = _format(node.node)
    if not node.sep:
        return _times(inner, node.at_least, node.at_most)
    more = None if node.at_most is None else node.at_most - 1
    many = _sequence([inner, _times(_sequence([_const(node.sep), inner]), max(0, node.at_least - 1), more)])
    return many if node.at_least else _times(many, 0, 1)


def _tag(node: RuleNode) -> Tag:
    """A node as a tag, whose first and last texts are its beginning and end."""
    begin, parts, end = "", node.parts if isinstance(node, Seq) else (node,), ""
    match parts:
        case (Text(begin), *inner, Text(end)):
            pass
        case (Text(begin), *inner):
            pass
        case (*inner, Text(end)):
            pass
        case _:
            inner = parts
    return {"type": "tag", "begin": begin, "content": _format(seq(*inner)), "end": end}


def _times(inner: Tag, at_least: int, at_most: int | None) -> Tag:
    match at_least, at_most:
        case 0, 1:
            return {"type": "optional", "content": inner}
        case 0, None:
            return {"type": "star", "content": inner}
        case 1, None:
            return {"type": "plus", "content": inner}
        case _:
            return {"type": "repeat", "min": at_least, "max": -1 if at_most is None else at_most, "content": inner}


def _sequence(elements: Iterable[Tag]) -> Tag:
    found = list(elements)
    return {"type": "sequence", "elements": found} if found else _const("")


def _const(text: str) -> Tag:
    return {"type": "const_string", "value": text}


def _is_spelled(node: RuleNode) -> bool:
    """Whether a node is spelled character by character, an id for instance, which is a grammar as a whole."""
    match node:
        case Chars():
            return True
        case Repeat(inner):
            return _is_spelled(inner)
        case OneOf(options):
            return all(map(_is_spelled, options))
        case Seq(parts):
            return bool(parts) and all(map(_is_spelled, parts))
        case _:
            return False
