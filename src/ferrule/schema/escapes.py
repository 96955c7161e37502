"""Read one escape of a JSON or Python string and return it as JSON."""

from __future__ import annotations

import re
from typing import NamedTuple

from ferrule.core.json_text import escape_text
from ferrule.schema.notation import Escapes


class Escape(NamedTuple):
    """An escape: `size` characters that mean `json`. A size of 0 means that this is not an escape."""

    json: str
    size: int


_NOT_AN_ESCAPE = Escape("", 0)
_JSON_LETTERS = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_PYTHON_LETTERS = {
    "\\": "\\", "'": "'", '"': '"', "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "\n": "",
}  # fmt: skip
_LETTERS = {Escapes.JSON: _JSON_LETTERS, Escapes.PYTHON: _PYTHON_LETTERS}
_HEX_SIZES = {Escapes.JSON: {"u": 4}, Escapes.PYTHON: {"x": 2, "u": 4, "U": 8}}
_HEX = re.compile(r"[0-9A-Fa-f]+")
_OCTAL = re.compile(r"[0-7]{1,3}")
_LOW_SURROGATE = re.compile(r"\\u([Dd][C-Fc-f][0-9A-Fa-f]{2})")


def read_escape(text: str, at: int, kind: Escapes, at_end: bool) -> Escape | None:
    """The escape at `at`, where there is a backslash; None if more text is needed."""
    size = len(text)
    if at + 1 >= size:
        return _unknown(kind, "\\", 1) if at_end else None
    letter = text[at + 1]
    plain = _LETTERS[kind].get(letter)
    if plain is not None:
        return Escape(escape_text(plain), 2)
    digits = _HEX_SIZES[kind].get(letter)
    if digits is not None:
        return _read_hex(text, at, digits, kind, at_end)
    if kind is Escapes.PYTHON and letter in "01234567":
        if size - at < 4 and not at_end:
            return None
        match = _OCTAL.match(text, at + 1)
        octal = match.group() if match else letter
        return Escape(escape_text(chr(int(octal, 8))), 1 + len(octal))
    return _unknown(kind, text[at : at + 2], 2)


def _unknown(kind: Escapes, raw: str, size: int) -> Escape:
    """An unknown escape: Python keeps the backslash, JSON does not allow it."""
    return Escape(escape_text(raw), size) if kind is Escapes.PYTHON else _NOT_AN_ESCAPE


def _read_hex(text: str, at: int, digits: int, kind: Escapes, at_end: bool) -> Escape | None:
    end = at + 2 + digits
    code = text[at + 2 : end]
    if len(code) < digits:
        return _unknown(kind, text[at : at + 2], 2) if at_end or not _is_hex(code) else None
    if not _is_hex(code):
        return _unknown(kind, text[at : at + 2], 2)
    number = int(code, 16)
    if number > 0x10FFFF:
        return _unknown(kind, text[at : at + 2], 2)
    if 0xD800 <= number < 0xDC00:
        return _read_pair(text, at, number, end, at_end)
    if 0xDC00 <= number < 0xE000:
        return Escape(f"\\u{number:04x}", end - at)
    return Escape(escape_text(chr(number)), end - at)


def _read_pair(text: str, at: int, high: int, end: int, at_end: bool) -> Escape | None:
    """Read a surrogate pair, the two escapes of a character beyond the BMP.

    A surrogate without its other half stays an escape, because it cannot be encoded as UTF-8.
    """
    following = text[end : end + 6]
    match = _LOW_SURROGATE.match(following)
    if match:
        low = int(match.group(1), 16)
        return Escape(chr(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00)), end - at + 6)
    if len(following) < 6 and not at_end and "\\u"[: len(following)] == following[:2]:
        return None
    return Escape(f"\\u{high:04x}", end - at)


def _is_hex(code: str) -> bool:
    return not code or _HEX.fullmatch(code) is not None
