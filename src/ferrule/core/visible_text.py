"""Text as a person must see it before approving a call: with nothing hidden.

Characters that move the cursor, reverse text, have no width, or only look like a space are escaped, because people
decide by what they see. This is the one table of them: commands, all APIs and the console show the same. The console
has a copy in `console/src/text/hiddenCharacters.ts`, and a test compares the two.
"""

from __future__ import annotations

import re
import unicodedata

HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Co", "Cn", "Cs", "Zl", "Zp", "Zs"})
"""Control, format, private use, unassigned, surrogate; line and paragraph separators; all spaces but the plain one."""
BLANK_RANGES = (
    *((0x034F, 0x034F), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F), (0x2800, 0x2800), (0x3164, 0x3164)),
    *((0xFE00, 0xFE0F), (0xFFA0, 0xFFA0), (0xE0100, 0xE01EF)),
)
"""Letters and combining characters that are drawn as nothing: fillers, the grapheme joiner, variation selectors."""
ALLOWED_IN_PROSE = frozenset("\n\t\u00a0\u202f")
"""Line breaks, tabs, and the spaces of French typography: nobody approves prose, and escapes would spoil it."""

# Where it joins two pictures, or selects the picture of one, such a character is part of an emoji.
_JOINER, _PICTURE_SELECTOR = "\u200d", "\ufe0f"
_ESCAPED = re.compile(r"[^ -~]")


def is_hidden(character: str) -> bool:
    """Whether a character cannot be seen, or looks like a plain space and is none."""
    if " " <= character <= "~":
        return False
    return unicodedata.category(character) in HIDDEN_CATEGORIES or _is_blank(character)


def visible_text(data: bytes) -> str:
    """Return bytes as text in which every character is visible. Bytes that are not UTF-8 are escaped too."""
    return visible(data.decode("utf-8", "backslashreplace"))


def visible(text: str) -> str:
    """Return a text with every hidden character escaped: for names, ids and arguments."""
    return _ESCAPED.sub(lambda match: _escape(match[0]), text)


def visible_prose(text: str) -> str:
    """Return a text with hidden characters escaped, except those that prose needs: for what a model says."""
    return _ESCAPED.sub(lambda match: match[0] if _is_prose(text, match.start()) else _escape(match[0]), text)


def visible_excerpt(data: bytes, limit: int = 120) -> str:
    """Return the beginning of the visible text, with a count of what is left out."""
    text = visible_text(data)
    return text if len(text) <= limit else f"{text[:limit]}... ({len(text) - limit} more characters)"


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii") if is_hidden(character) else character


def _is_blank(character: str) -> bool:
    return any(first <= ord(character) <= last for first, last in BLANK_RANGES)


def _is_prose(text: str, at: int) -> bool:
    character, before, after = text[at], text[at - 1 : at], text[at + 1 : at + 2]
    if character == _PICTURE_SELECTOR:
        return _is_picture(before) or before in tuple("0123456789#*")
    if character == _JOINER:
        return (_is_picture(before) or before == _PICTURE_SELECTOR) and _is_picture(after)
    return character in ALLOWED_IN_PROSE


def _is_picture(character: str) -> bool:
    return bool(character) and unicodedata.category(character) in ("So", "Sk") and ord(character) > 0xFF
