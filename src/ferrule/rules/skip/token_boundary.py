"""Settled: how much of a forced text is made of whole tokens, whatever comes after it. Knows no tokenizer.

Only what is safe with every tokenizer is taken for granted; the tokens that a vocabulary is known to have are given in.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ferrule.rules.skip.continuations import Option, is_number

_LETTER = re.compile(r"[^\W_]")
_MARKS = r"(?:[^\w\s]|_)*"
# The last word and the marks before it, with the space that they begin with, or with the line that other marks end.
_LAST_WORD = re.compile(rf"{_MARKS}[\r\n]\s*{_MARKS}[^\W_]*\Z|[ \t]*{_MARKS}[^\W_]*\Z")
_SPACES = re.compile(r" *\Z")


@dataclass(frozen=True, slots=True)
class Marks:
    """Texts that the vocabulary may have a token of its own for, and those for which it is known to have one."""

    possible: tuple[str, ...] = ()
    known: tuple[str, ...] = ()


NO_MARKS = Marks()


def settled(text: str, options: Sequence[Option], marks: Marks) -> str:
    """As much of a forced text as is made of whole tokens, whatever comes after it.

    Tokenizers cut a text before a space, before and behind a run of letters, and behind a line's end; most put a space
    or a mark to the word behind it. So the last word stays with what comes next, and so do the marks before it: `<` may
    become `</`, `get` `getter`, and one token may be a quote and what stands behind it. No more than that: what a model
    is left to write of a forced text, it may write in other tokens.
    """
    if all(option.is_end for option in options) or text.endswith(marks.known):
        return text
    kept = _open_end(text, options).sub("", text, count=1).rstrip(" ")
    for mark in marks.possible:
        at = text.rfind(mark)
        if at >= 0 and at < len(kept) < at + len(mark):
            kept = text[:at].rstrip(" ")
    return kept


def _open_end(text: str, options: Sequence[Option]) -> re.Pattern[str]:
    """What of a text's end a token may reach across."""
    if len(options) == 1 and options[0].left and is_number(options[0].left[0]):
        # It begins with no mark but its sign, and that goes with the space before it.
        is_closed = text.endswith(" ")
    else:
        # A word is whole where none of the ways on begins with another.
        ways = [option.text for option in options]
        is_closed = bool(_LETTER.match(text[-1:])) and all(way and not _LETTER.match(way) for way in ways)
    return _SPACES if is_closed else _LAST_WORD
