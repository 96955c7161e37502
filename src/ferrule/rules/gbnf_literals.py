"""How GBNF spells its pieces: literals, sets of characters, repetitions. Must not know any rule."""

from __future__ import annotations

NOTHING = r"[^\x00-\U0010FFFF]"
"""A character that does not exist."""


def literal(text: str) -> str:
    """Exactly this text."""
    escaped = text.translate(_IN_TEXT)
    return f'"{escaped if escaped.isprintable() else "".join(map(_shown, escaped))}"'


def char_class(ranges: tuple[tuple[str, str], ...], is_negated: bool) -> str:
    if not ranges:
        return "." if is_negated else NOTHING
    pieces = (_in_class(low) + (f"-{_in_class(high)}" if high != low else "") for low, high in ranges)
    return f"[{'^' if is_negated else ''}{''.join(pieces)}]"


def _in_class(char: str) -> str:
    return _IN_CLASS.get(char) or _shown(char)


def _shown(char: str) -> str:
    if char.isprintable():
        return char
    code = ord(char)
    return f"\\x{code:02X}" if code < 0x80 else f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}"


_IN_TEXT = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"})
# A class has no other way to hold a hyphen or a caret in any place.
_IN_CLASS = {"\\": "\\\\", "[": "\\[", "]": "\\]", "-": "\\x2D", "^": "\\x5E", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
