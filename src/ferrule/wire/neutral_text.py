"""Neutral: text from outside, in which nothing can be read as the format's own markup.

What a tool gives back is somebody else's text. A marker in it would end the result early and begin something else, so
each one is broken by a zero width space, which a reader does not see and no tokenizer takes for the marker.
"""

from __future__ import annotations

import re
from functools import lru_cache

from ferrule.wire.format import Format
from ferrule.wire.node import Lit
from ferrule.wire.parse_plan import is_marker, opening

BREAK = "\u200b"
# How the families spell the tokens that open and end turns: a result that held one could forge somebody's turn.
_TURNS = (
    r"<\|[^|<>\s]{1,48}\|>",
    r"<｜[^｜<>\s]{1,48}｜>",
    r"\[/?(?:INST|SYSTEM_PROMPT|TOOL_RESULTS)\]",
    r"<(?:start|end)_of_turn>",
    r"</?s>",
)


def neutral(text: str, format: Format) -> str:
    """The text with every marker of the format broken after its first character."""
    return _markers(format).sub(lambda found: found.group()[0] + BREAK + found.group()[1:], text)


@lru_cache(maxsize=512)
def _markers(format: Format) -> re.Pattern[str]:
    shape = format.result
    pieces = [part.canonical for part in shape.each.parts if isinstance(part, Lit)]
    marks = (*format.tokens, *format.stops, *pieces, shape.open, shape.close, *opening(format.calls))
    kept = sorted({mark.strip() for mark in marks if is_marker(mark)}, key=len, reverse=True)
    return re.compile("|".join((*map(re.escape, kept), *_TURNS)))
