"""Settled: how much of a forced text is made of whole tokens, whatever comes after it. Knows no tokenizer.

Only what is safe with every tokenizer is taken for granted; the tokens that a vocabulary is known to have are given in.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ferrule.rules.skip.options import Option, is_number

_WORD = re.compile(r"\w")
# Before a choice: the last word and the marks before it.
_LAST_WORD = re.compile(r"[^\w\s]*\s*[^\w\s]*\w*\Z")
# Before a value: the marks before it with the space that they begin with, or with the line that they end.
_LAST_MARKS = re.compile(r"[^\w\s]*[\r\n]\s*[^\w\s]*\Z|\s*[^\w\s]*\Z")
_SPACES = re.compile(r" *\Z")


@dataclass(frozen=True, slots=True)
class Marks:
    """Texts that the vocabulary may have a token of its own for, and those for which it is known to have one."""

    possible: tuple[str, ...] = ()
    known: tuple[str, ...] = ()


NO_MARKS = Marks()


def settled(text: str, options: Sequence[Option], marks: Marks) -> str:
    """As much of a forced text as is made of whole tokens, whatever comes after it.

    Tokenizers write a space as the beginning of the next word, so no text ends in one. Before a choice between texts
    the last word and the marks before it stay with the choice: `<` may become `</`, and `get` `get_weather`. Marks
    before a value stay with the value: one token may be a quote and what stands behind it.
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
    if len(options) == 1:
        # A number begins with no mark but its sign, and that goes with the space before it.
        is_number_next = options[0].left and is_number(options[0].left[0])
        return _SPACES if is_number_next and text.endswith(" ") else _LAST_MARKS
    # A word is whole where none of the ways on begins with another.
    is_whole_word = _WORD.match(text[-1:]) and all(option.text and not _WORD.match(option.text) for option in options)
    return _SPACES if is_whole_word else _LAST_WORD
