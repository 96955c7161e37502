"""Ends: texts that end a hole for certain, and how much of what was written is the hole's. Knows no model."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ferrule.rules.rule import Prose, Raw, RuleNode, Str, Value
from ferrule.rules.skip.continuations import Option, Stack, is_number, options_of, shared
from ferrule.rules.skip.member_expansion import TAIL

# So many characters are two tokens or three: about what one more request costs where going on is cheap.
WORTH = 8
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
STRING_REST = re.compile(r'(?:[^"\\]|\\u[0-9a-fA-F]{4}|\\[^u])*"', re.DOTALL)


def telling(options: Sequence[Option], worth: int) -> tuple[str, ...]:
    """Texts of which one comes next, each with enough behind it that is forced to be worth an interruption.

    None where a way begins with a leaf, or where one way's text is the beginning of another's.
    """
    texts = tuple(dict.fromkeys(option.text for option in options if not option.is_end))
    return _apart(texts, worth) if texts and all(texts) else ()


def _apart(texts: Sequence[str], worth: int, common: str = "") -> tuple[str, ...]:
    """The shortest of them from which on their own beginnings go on alike for a while; all begin with `common`."""
    alike = shared(texts)
    if len(texts) == 1 or len(alike) - len(common) > worth:
        return (alike[: len(common) + 1],)
    groups: dict[str, list[str]] = {}
    for text in texts:
        groups.setdefault(text[len(alike) : len(alike) + 1], []).append(text)
    if "" in groups:
        return ()
    found = [_apart(group, worth, alike) for group in groups.values()]
    return tuple(end for ends in found for end in ends) if all(found) else ()


def ends_of(hole: Option, worth: int) -> tuple[str, ...]:
    """Texts of which one ends a value, by what may come after it; none where no text does so for certain."""
    leaf, options = hole.left[0], options_of(hole.left[1:])
    tells = telling(options, worth)
    match leaf:
        case Str(quote) if quote is TAIL:
            # What follows may be decided by the very token that closes the string; and the quote that opens it, where
            # the model writes that too, must not end it.
            is_told = len(tells) > 1 or (tells and quote.close in hole.text)
            return tuple(quote.close + told for told in tells) if is_told else (quote.close,)
        case Value() if is_number(leaf):
            return tuple(told for told in tells if told[0] not in "0123456789.eE+-")
        case Prose(excludes) | Raw(_, _, excludes):
            return _of_prose(excludes, options)
        case _:
            return ()


def _of_prose(excludes: Sequence[str], options: Sequence[Option]) -> tuple[str, ...]:
    """Of each text that may follow as much as the free text before it cannot hold."""
    found: list[str] = []
    for option in options:
        if option.is_end:
            continue
        sure = [option.text.find(mark) + len(mark) for mark in excludes if mark in option.text]
        if not sure:
            return ()
        found.append(option.text[: min(sure)])
    return tuple(dict.fromkeys(found))


def length_of(leaf: RuleNode, after: Stack, text: str) -> int | None:
    """How much of a text is the leaf's; None where it may go on."""
    match leaf:
        case Str(quote) if quote is TAIL:
            found = STRING_REST.match(text)
        case Value() if is_number(leaf):
            found = _NUMBER.match(text)
            found = found if found and found.end() < len(text) else None
        case Prose() | Raw():
            places = [text.find(end) for end in ends_of(Option("", (leaf, *after)), WORTH) if end in text]
            return min(places) if places else None
        case _:
            return None
    return found.end() if found else None
