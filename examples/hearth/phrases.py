"""Translation with a table of phrases: the longest match first. Words that are not in the table are listed."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from ferrule import ToolError, tool

_TABLE = Path(__file__).parent / "phrases.json"
_WORD = re.compile(r"\w+")


@tool(bound_to=("trans.text", "1.0"))
def translate(text: str, to: str) -> dict[str, Any]:
    """Translates a text into another language, as far as the table of phrases goes.

    Args:
        text: what to translate
        to: the language, such as de
    """
    rows = _rows()
    if all(to not in row for row in rows):
        raise ToolError(f"there is no table for {to!r}; there are {', '.join(sorted(rows[0]))}")
    phrases = {phrase.casefold(): row[to] for row in rows for phrase in row.values()}
    longest = sorted(phrases, key=len, reverse=True)
    pattern = re.compile(r"\b(?:" + "|".join(map(re.escape, longest)) + r")\b", re.IGNORECASE)
    unknown = _WORD.findall(pattern.sub(" ", text))
    return {"text": pattern.sub(lambda match: phrases[match[0].casefold()], text), "not_in_the_table": unknown}


@cache
def _rows() -> list[dict[str, str]]:
    return json.loads(_TABLE.read_text(encoding="utf-8"))
