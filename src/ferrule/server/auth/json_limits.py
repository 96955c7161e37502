"""Bound the cost of parsing a JSON text before it is parsed.

A short text can hold a million lists, or lists nested a million deep. Parsing blocks the event loop, so the number of
values and the depth are counted first, with byte searches only. Whether the text is JSON at all is left to the parser.
"""

from __future__ import annotations

from ferrule.errors import TooLargeError

_OPENING = (b"{", b"[")
_QUOTES_PER_VALUE = 4
"""A string value under a key has four quotes."""
_NOT_BRACKETS = bytes(set(range(256)) - set(b"{}[]"))
_TO_SQUARE = bytes.maketrans(b"{}", b"[]")


def check_json(text: bytes, depth: int, values: int) -> None:
    """Raise `TooLargeError` for a text that is nested more deeply than `depth` or holds more than `values` values."""
    brackets = sum(map(text.count, _OPENING))
    if brackets <= depth and brackets + text.count(b",") < values:
        # Brackets inside strings are counted too. The count is never too small, and good enough for most texts.
        return
    structure = _outside_strings(text, values)
    # Every value except the first of its list or object follows a comma.
    if structure is None or sum(map(structure.count, _OPENING)) + structure.count(b",") >= values:
        raise TooLargeError(
            f"the request body holds more than {values} values", hint="Send less, or raise limits.json_values."
        )
    if _is_deeper(structure.translate(_TO_SQUARE, _NOT_BRACKETS), depth):
        raise TooLargeError(
            f"the request body is nested more than {depth} deep", hint="Send flatter JSON, or raise limits.json_depth."
        )


def _outside_strings(text: bytes, values: int) -> bytes | None:
    """Remove the contents of strings. Returns None if there are more strings than `values` allows."""
    plain = text.replace(rb"\\", b"").replace(rb"\"", b"")
    if plain.count(b'"') > _QUOTES_PER_VALUE * values:
        return None
    return b"".join(plain.split(b'"')[::2])


def _is_deeper(brackets: bytes, depth: int) -> bool:
    """Remove empty brackets once per level. Each pass is one search, so the cost is bounded by `depth` passes."""
    for level in range(depth):
        remaining = brackets.replace(b"[]", b"")
        if len(remaining) == len(brackets):
            # Unbalanced brackets are not JSON, but a parser still descends as deep as they open.
            return level + remaining.count(b"[") > depth
        brackets = remaining
    return b"[" in brackets
