"""Emit a rule as xgrammar's structural tag, which vLLM and SGLang accept as `structural_tag`.

The skeleton of a reply (markers, choices, consecutive calls, free text) uses the tag's own nodes. A value becomes a
`grammar` node, because the tag's `json_schema` node accepts any white space and cannot be configured. The validator
checks what the lowered value does not enforce.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from ferrule.core.byte_cache import ENTRY_BYTES, ByteCache
from ferrule.rules.automaton import minimal_strings
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
    fingerprint_of,
    inline_shared,
    map_children,
    maybe,
    one_of,
    seq,
)
from ferrule.rules.text_delimiters import delimit, leading_text

Tag: TypeAlias = dict[str, Any]
_GRAMMARS: ByteCache[str, str] = ByteCache(lambda _, grammar: ENTRY_BYTES + len(grammar))
"""The grammars of recently emitted values: if one tool of a set changes, only its values are written again."""


def emit_structural_tag(rule: Rule) -> Tag:
    """The value of `structural_tag` for a rule, ready for JSON."""
    start = _lower_raw_text(inline_shared(rule.start))
    # xgrammar follows all ways to split a text at once, so free text needs no explicit end. The exception is a marker
    # that could begin in the text and end in what follows: the parser would see that one first.
    once = _merge_repeated_calls(start)
    return {"type": "structural_tag", "format": _format(delimit(start) if _straddles(once, "") else once)}


def _lower_raw_text(node: RuleNode) -> RuleNode:
    """Lower raw strings to free text, and leave other leaves unchanged."""
    if not isinstance(node, Raw):
        return map_children(node, _lower_raw_text)
    lowered = Lowering().lower(node)
    return lowered if isinstance(lowered, Prose) else node


def _merge_repeated_calls(node: RuleNode) -> RuleNode:
    """Rewrite `text calls | calls` as `(text)? calls`. A tag has no named rules, so calls would be written twice."""
    match node:
        case OneOf((Seq(text_then_calls), calls)) if (head := _text_before(text_then_calls, calls)) is not None:
            return seq(maybe(head), calls)
        case OneOf(options):
            return one_of(*map(_merge_repeated_calls, options))
        case Seq(parts):
            return seq(*map(_merge_repeated_calls, parts))
        case _:
            return node


def _text_before(whole: tuple[RuleNode, ...], calls: RuleNode) -> RuleNode | None:
    """What precedes the calls in a sequence that ends in them; None if it does not end in them."""
    ending = calls.parts if isinstance(calls, Seq) else (calls,)
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
            return any(_begins_before(marker, follows) for marker in minimal_strings(excludes))
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


def _format(node: RuleNode, *, in_tag: bool = False) -> Tag:
    """The node as a format.

    Inside of a tag a repetition is a grammar: xgrammar takes repeated free text for text without an end.
    """
    match node:
        case Text(text):
            return _const(text)
        case Prose(excludes, "", at_most):
            limit = {} if at_most is None else {"max_chars": at_most}
            return {"type": "any_text", "excludes": list(minimal_strings(excludes)), **limit}
        case Seq(parts) if not _is_character_level(node):
            return _sequence(_format(part, in_tag=in_tag) for part in parts)
        case OneOf(options) if not _is_character_level(node):
            return {"type": "or", "elements": [_format(option, in_tag=in_tag) for option in options]}
        case Repeat(inner) if not in_tag and not _is_character_level(inner):
            return _repeat(node)
        case _:
            grammar = _GRAMMARS.get(fingerprint_of(node), lambda: ebnf_of(node))
            return {"type": "grammar", "grammar": grammar}


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
        return _repetition(inner, node.at_least, node.at_most)
    more = None if node.at_most is None else node.at_most - 1
    many = _sequence([inner, _repetition(_sequence([_const(node.sep), inner]), max(0, node.at_least - 1), more)])
    return many if node.at_least else _repetition(many, 0, 1)


def _tag(node: RuleNode) -> Tag:
    """The node as a tag: its first text becomes `begin`, and its last stays in the content.

    xgrammar excludes a tag's `end` from every free text inside the tag. A quoted value may contain that text, so `end`
    is left empty.
    """
    match node:
        case Seq((Text(begin), *inner)):
            return {"type": "tag", "begin": begin, "content": _format(seq(*inner), in_tag=True), "end": ""}
        case _:
            return {"type": "tag", "begin": "", "content": _format(node, in_tag=True), "end": ""}


def _repetition(inner: Tag, at_least: int, at_most: int | None) -> Tag:
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
    items = list(elements)
    return {"type": "sequence", "elements": items} if items else _const("")


def _const(text: str) -> Tag:
    return {"type": "const_string", "value": text}


def _is_character_level(node: RuleNode) -> bool:
    """Whether a node consists of single characters, such as an id. It is then emitted as one grammar."""
    match node:
        case Chars():
            return True
        case Repeat(inner):
            return _is_character_level(inner)
        case OneOf(options):
            return all(map(_is_character_level, options))
        case Seq(parts):
            return bool(parts) and all(map(_is_character_level, parts))
        case _:
            return False
