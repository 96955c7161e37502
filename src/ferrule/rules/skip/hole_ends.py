"""Find the texts that certainly end a hole, and how much of a generated text belongs to the hole.

This module does not depend on any model.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from ferrule.rules.rule import Prose, Raw, RuleNode, Str, Value
from ferrule.rules.skip.continuations import Continuation, Stack, common_prefix, continuations, is_number
from ferrule.rules.skip.member_expansion import TAIL

# Eight characters are two or three tokens: about the cost of one more request where a continued request is cheap.
MIN_FORCED_CHARACTERS = 8
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
STRING_REST = re.compile(r'(?:[^"\\]|\\u[0-9a-fA-F]{4}|\\[^u])*"', re.DOTALL)


def distinguishing_ends(choices: Sequence[Continuation], min_forced: int) -> tuple[str, ...]:
    """Texts of which one must come next, each followed by enough forced text to be worth an interruption.

    Empty if a continuation begins with a leaf, or if the text of one is a prefix of another's. With a text that ends
    the rule, an answer may also end: the engine then reports the end and no stop.
    """
    texts = tuple(dict.fromkeys(choice.text for choice in choices if not choice.is_end))
    final = {choice.text for choice in choices if not choice.remaining}
    final -= {choice.text for choice in choices if choice.remaining}
    return _distinguishing_prefixes(texts, min_forced, final) if texts and all(texts) else ()


def _distinguishing_prefixes(
    texts: Sequence[str], min_forced: int, final: Collection[str], common: str = ""
) -> tuple[str, ...]:
    """The shortest prefixes after which at least `min_forced` characters are forced. All texts begin with `common`."""
    prefix = common_prefix(texts)
    if len(texts) == 1 or len(prefix) - len(common) > min_forced:
        return (prefix[: len(common) + 1],)
    groups: dict[str, list[str]] = {}
    for text in texts:
        groups.setdefault(text[len(prefix) : len(prefix) + 1], []).append(text)
    if prefix in final:
        # A text that continues after it is not the end.
        groups.pop("", None)
    if "" in groups:
        return ()
    group_ends = [_distinguishing_prefixes(group, min_forced, final, prefix) for group in groups.values()]
    return tuple(end for ends in group_ends for end in ends) if all(group_ends) else ()


def ends_of(hole: Continuation, min_forced: int) -> tuple[str, ...]:
    """Texts of which one ends a value, derived from what may follow it; empty if no text certainly ends it."""
    leaf, choices = hole.remaining[0], continuations(hole.remaining[1:])
    next_ends = distinguishing_ends(choices, min_forced)
    match leaf:
        case Str(quote) if quote is TAIL:
            # The token that closes the string may also decide what follows, so the stop includes that. If the model
            # writes the opening quote too, the quote alone must not be a stop.
            is_distinguished = len(next_ends) > 1 or (next_ends and quote.close in hole.text)
            return tuple(quote.close + end for end in next_ends) if is_distinguished else (quote.close,)
        case Value() if is_number(leaf):
            return tuple(end for end in next_ends if end[0] not in "0123456789.eE+-")
        case Prose(excludes) | Raw(_, _, excludes):
            return _prose_ends(excludes, choices)
        case _:
            return ()


def _prose_ends(excludes: Sequence[str], choices: Sequence[Continuation]) -> tuple[str, ...]:
    """The prefix of each following text that the free text before it cannot contain."""
    ends: list[str] = []
    for choice in choices:
        if choice.is_end:
            continue
        end_offsets = [choice.text.find(marker) + len(marker) for marker in excludes if marker in choice.text]
        if not end_offsets:
            return ()
        ends.append(choice.text[: min(end_offsets)])
    return tuple(dict.fromkeys(ends))


def length_of(leaf: RuleNode, after: Stack, text: str) -> int | None:
    """How many characters of a text belong to the leaf; None if the leaf may continue."""
    match leaf:
        case Str(quote) if quote is TAIL:
            match = STRING_REST.match(text)
        case Value() if is_number(leaf):
            match = _NUMBER.match(text)
            match = match if match and match.end() < len(text) else None
        case Prose() | Raw():
            offsets = [
                text.find(end)
                for end in ends_of(Continuation("", (leaf, *after)), MIN_FORCED_CHARACTERS)
                if end in text
            ]
            return min(offsets) if offsets else None
        case _:
            return None
    return match.end() if match else None
