"""Settled: how much of a forced text is made of whole tokens, whatever comes after it. Knows no tokenizer.

Only what is safe with every tokenizer is taken for granted; the tokens that a vocabulary is known to have are given in.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ferrule.rules.skip.options import Option

_LAST_WORD = re.compile(r"[^\w\s]*\s*[^\w\s]*\w*\Z")


@dataclass(frozen=True, slots=True)
class Marks:
    """Texts that the vocabulary may have a token of its own for, and those for which it is known to have one."""

    possible: tuple[str, ...] = ()
    known: tuple[str, ...] = ()


NO_MARKS = Marks()


def settled(text: str, options: Sequence[Option], marks: Marks) -> str:
    """As much of a forced text as is made of whole tokens, whatever comes after it.

    Tokenizers write a space as the beginning of the next word, so no text ends in one. Before a choice between texts
    the last word and the marks before it stay with the choice: `<` may become `</`, and `get` `get_weather`. A value
    is free to begin with anything, and tokenizers keep letters apart from the quote or the newline before them.
    """
    if all(option.is_end for option in options) or text.endswith(marks.known):
        return text
    kept = (_LAST_WORD.sub("", text) if len(options) > 1 else text).rstrip(" ")
    for mark in marks.possible:
        at = text.rfind(mark)
        if at >= 0 and at < len(kept) < at + len(mark):
            kept = text[:at].rstrip(" ")
    return kept
