"""Neutralize untrusted text, so that no part of it can be read as the format's own markup.

A tool's result is untrusted text. A marker in it could end the result early and forge a turn or a call. Each marker is
therefore broken by a zero width space: people do not see it, and no tokenizer reads the result as the marker.
"""

from __future__ import annotations

import re
from functools import lru_cache

from ferrule.wire.format import Format
from ferrule.wire.node import Lit
from ferrule.wire.parse_plan import is_marker, opening_texts

BREAK = "\u200b"
# How model families spell the tokens that open and end turns, for a model whose tokenizer is unknown. A result that
# contains one could forge a turn.
_TURNS = (
    r"<\|[^|<>\s]{1,48}\|?>",
    r"<[^|<>\s]{1,48}\|>",
    r"<｜[^｜<>\s]{1,48}｜>",
    r"\[\|[^|\s]{1,48}\|\]",
    r"\[/?[A-Z_]{3,48}\]",
    r"\]~[bd!][\[\]]|\[e~\[",
    r"<(?:start|end)_of_turn>",
    r"</?(?:s|role|longcat_[a-z_]{1,48}|[a-z]{1,16}_start_of_turn)>",
    r"<(?:seed|extra_id|SPECIAL|unk|pad|bos|eos)[:_0-9a-z]{0,48}>",
)


def _starts(*patterns: str) -> re.Pattern[str]:
    """The first character of each match. Matches may overlap: a token inside of another one's text counts too."""
    return re.compile(f"(?=({'|'.join(patterns)}))[\\s\\S]")


_ANY_TURN = _starts(*_TURNS)


def neutralize(text: str, format: Format) -> str:
    """Return the text with every marker of the format broken after its first character."""
    return _markers(format).sub(_break, text)


def neutralize_turns(text: str) -> str:
    """The same for the tokens of turns alone: for JSON, which other markers are part of."""
    return _ANY_TURN.sub(_break, text)


def likely_special_texts(text: str) -> frozenset[str]:
    """The texts that are special tokens in some model family: for a model whose tokenizer is unknown."""
    return frozenset(match[1] for match in _ANY_TURN.finditer(text))


def _break(match: re.Match[str]) -> str:
    return match.group() + BREAK


@lru_cache(maxsize=512)
def _markers(format: Format) -> re.Pattern[str]:
    shape = format.result
    pieces = [part.canonical for part in shape.each.parts if isinstance(part, Lit)]
    candidates = (*format.tokens, *format.stops, *pieces, shape.open, shape.close, *opening_texts(format.calls))
    markers = sorted({text.strip() for text in candidates if is_marker(text)}, key=len, reverse=True)
    return _starts(*map(re.escape, markers), *_TURNS)
