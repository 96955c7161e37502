"""Arguments as a person must see them before approving a call: from the bytes that will run, with nothing hidden.

Characters that move the cursor, reverse text, have no width, or only look like a space are escaped, because people
decide by what they see. Commands and all APIs use this, so that they show the same.
"""

from __future__ import annotations

import unicodedata

# Control, format, private use, unassigned, surrogate; line and paragraph separators; all spaces but the plain one.
_HIDDEN = frozenset({"Cc", "Cf", "Co", "Cn", "Cs", "Zl", "Zp", "Zs"})
# Letters and combining characters that are drawn as nothing: fillers, the grapheme joiner, variation selectors.
_BLANK = (
    *((0x034F, 0x034F), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F), (0x2800, 0x2800), (0x3164, 0x3164)),
    *((0xFE00, 0xFE0F), (0xFFA0, 0xFFA0), (0xE0100, 0xE01EF)),
)


def visible_text(data: bytes) -> str:
    """Return bytes as text in which every character is visible. Bytes that are not UTF-8 are escaped too."""
    return "".join(map(_escape, data.decode("utf-8", "backslashreplace")))


def visible_excerpt(data: bytes, limit: int = 120) -> str:
    """Return the beginning of the visible text, with a count of what is left out."""
    text = visible_text(data)
    return text if len(text) <= limit else f"{text[:limit]}... ({len(text) - limit} more characters)"


def _escape(character: str) -> str:
    if character == " " or not (unicodedata.category(character) in _HIDDEN or _is_blank(character)):
        return character
    return character.encode("unicode_escape").decode("ascii")


def _is_blank(character: str) -> bool:
    return any(first <= ord(character) <= last for first, last in _BLANK)
