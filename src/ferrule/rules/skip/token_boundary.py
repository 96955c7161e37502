"""Find how much of a forced text consists of whole tokens, whatever follows it.

This module does not depend on a tokenizer. It assumes only what holds for every tokenizer; the caller passes the tokens
that the vocabulary is known to have.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ferrule.rules.skip.continuations import Continuation, is_number

_LETTER = re.compile(r"[^\W_]")
_PUNCTUATION = r"(?:[^\w\s]|_)*"
# The last word and the punctuation before it, with their leading space or with the line break that precedes them.
_LAST_WORD = re.compile(rf"{_PUNCTUATION}[\r\n]\s*{_PUNCTUATION}[^\W_]*\Z|[ \t]*{_PUNCTUATION}[^\W_]*\Z")
_SPACES = re.compile(r" *\Z")


@dataclass(frozen=True, slots=True)
class MarkerTokens:
    """Texts for which the vocabulary may have a single token (`possible`), and those for which it does (`known`)."""

    possible: tuple[str, ...] = ()
    known: tuple[str, ...] = ()


NO_MARKERS = MarkerTokens()


def whole_token_prefix(text: str, choices: Sequence[Continuation], markers: MarkerTokens) -> str:
    """The prefix of a forced text that consists of whole tokens, whatever follows.

    Tokenizers split a text before a space, before and after a run of letters, and after a line break. Most join a space
    or a punctuation character with the word after it. So the last word, and the punctuation before it, stay with what
    follows: `<` may become `</`, `get` may become `getter`, and one token may be a quote and the text after it. The
    rest is kept as short as possible, because a model may write forced text in other tokens than the tokenizer.
    """
    if all(choice.is_end for choice in choices) or text.endswith(markers.known):
        return text
    prefix = _open_end_pattern(text, choices).sub("", text, count=1).rstrip(" ")
    while cut := _cut_marker(text, len(prefix), markers):
        at, is_token = cut
        # Where the marker is no token, one token may be the punctuation before it and the marker's first character.
        open_end = _SPACES if is_token else _open_end_pattern(text[:at], [Continuation(text[at:], ())])
        prefix = open_end.sub("", text[:at], count=1).rstrip(" ")
    return prefix


def _cut_marker(text: str, end: int, markers: MarkerTokens) -> tuple[int, bool] | None:
    """Where a marker begins that the end of a prefix would cut, and whether it is a token; None if none is cut."""
    for marker in markers.possible:
        at = text.rfind(marker, max(end - len(marker) + 1, 0), end + len(marker) - 1)
        if at >= 0:
            return at, marker in markers.known
    return None


def _open_end_pattern(text: str, choices: Sequence[Continuation]) -> re.Pattern[str]:
    """A pattern for the end of a text that may be part of a token which also covers what follows."""
    if len(choices) == 1 and choices[0].remaining and is_number(choices[0].remaining[0]):
        # A number begins with no punctuation but its sign, and the sign joins the space before it.
        is_closed = text.endswith(" ")
    else:
        # The last word is complete if no continuation begins with a letter.
        next_texts = [choice.text for choice in choices]
        is_closed = bool(_LETTER.match(text[-1:])) and all(way and not _LETTER.match(way) for way in next_texts)
    return _SPACES if is_closed else _LAST_WORD
