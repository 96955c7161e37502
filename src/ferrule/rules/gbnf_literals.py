"""GBNF syntax for literals and character classes."""

from __future__ import annotations

NOTHING = r"[^\x00-\U0010FFFF]"
"""A class that matches no character."""


def literal(text: str) -> str:
    """A GBNF literal for exactly this text."""
    escaped = text.translate(_IN_TEXT)
    return f'"{escaped if escaped.isprintable() else "".join(map(_escape_unprintable, escaped))}"'


def char_class(ranges: tuple[tuple[str, str], ...], is_negated: bool) -> str:
    """A GBNF character class for the ranges, or for all characters outside of them."""
    if not ranges:
        return "." if is_negated else NOTHING
    pieces = (_in_class(low) + (f"-{_in_class(high)}" if high != low else "") for low, high in ranges)
    return f"[{'^' if is_negated else ''}{''.join(pieces)}]"


def _in_class(char: str) -> str:
    return _IN_CLASS.get(char) or _escape_unprintable(char)


def _escape_unprintable(char: str) -> str:
    if char.isprintable():
        return char
    code = ord(char)
    return f"\\x{code:02X}" if code < 0x80 else f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}"


_IN_TEXT = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"})
# Inside a class, a hyphen or a caret is safe in every position only as a hex escape.
_IN_CLASS = {"\\": "\\\\", "[": "\\[", "]": "\\]", "-": "\\x2D", "^": "\\x5E", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
