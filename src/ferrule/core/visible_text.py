"""Arguments as a person must see them before saying yes: from the bytes that will run, with nothing in them hidden.

What moves the cursor, turns text around, has no width, or looks like a plain space and is none, is spelled out,
because the reader decides by what he sees. Knows no ledger and no terminal: commands and every API show the same.
"""

from __future__ import annotations

import unicodedata

# Control, format, private, unassigned, half a pair; separators of lines and paragraphs; every space but the plain one.
_HIDDEN = frozenset({"Cc", "Cf", "Co", "Cn", "Cs", "Zl", "Zp", "Zs"})
# Letters and marks that are drawn as nothing: fillers, the grapheme joiner, variation selectors.
_BLANK = (
    *((0x034F, 0x034F), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F), (0x2800, 0x2800), (0x3164, 0x3164)),
    *((0xFE00, 0xFE0F), (0xFFA0, 0xFFA0), (0xE0100, 0xE01EF)),
)


def exactly(data: bytes) -> str:
    """Canonical bytes as text in which every character can be seen. Bytes that are no UTF-8 are spelled too."""
    return "".join(map(_spelled, data.decode("utf-8", "backslashreplace")))


def shortly(data: bytes, most: int = 120) -> str:
    """The beginning of it. What is left out is counted, so that nobody takes it for all."""
    text = exactly(data)
    return text if len(text) <= most else f"{text[:most]}... ({len(text) - most} characters more)"


def _spelled(character: str) -> str:
    if character == " " or not (unicodedata.category(character) in _HIDDEN or _is_blank(character)):
        return character
    return character.encode("unicode_escape").decode("ascii")


def _is_blank(character: str) -> bool:
    return any(first <= ord(character) <= last for first, last in _BLANK)
