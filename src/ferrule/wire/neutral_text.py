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
# How model families spell the tokens that open and end turns. A result that contains one could forge a turn.
_TURNS = (
    r"<\|[^|<>\s]{1,48}\|>",
    r"<｜[^｜<>\s]{1,48}｜>",
    r"\[/?(?:INST|SYSTEM_PROMPT|TOOL_RESULTS)\]",
    r"<(?:start|end)_of_turn>",
    r"</?s>",
)


def neutralize(text: str, format: Format) -> str:
    """Return the text with every marker of the format broken after its first character."""
    return _markers(format).sub(lambda match: match.group()[0] + BREAK + match.group()[1:], text)


@lru_cache(maxsize=512)
def _markers(format: Format) -> re.Pattern[str]:
    shape = format.result
    pieces = [part.canonical for part in shape.each.parts if isinstance(part, Lit)]
    candidates = (*format.tokens, *format.stops, *pieces, shape.open, shape.close, *opening_texts(format.calls))
    markers = sorted({text.strip() for text in candidates if is_marker(text)}, key=len, reverse=True)
    return re.compile("|".join((*map(re.escape, markers), *_TURNS)))
