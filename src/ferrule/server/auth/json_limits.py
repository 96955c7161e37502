"""How large a JSON text is, found before it is read: a short text can hold a million lists, or one a million deep.

Reading holds up everybody else for as long as it takes, so what it may take is bounded by what is counted here, at the
speed of a search. Must not know what the text means; whether it is JSON at all is found by whoever reads it.
"""

from __future__ import annotations

from ferrule.errors import TooLargeError

_OPENING = (b"{", b"[")
_QUOTES_A_VALUE = 4
"""A value that is a string under a key."""
_NOT_BRACKETS = bytes(set(range(256)) - set(b"{}[]"))
_ALIKE = bytes.maketrans(b"{}", b"[]")


def check_json(text: bytes, depth: int, values: int) -> None:
    """Raises `TooLargeError` for a text that nests more deeply, or holds more values."""
    opened = sum(map(text.count, _OPENING))
    if opened <= depth and opened + text.count(b",") < values:
        # Strings hold brackets too, so that this is no count; but it is never too small, and enough for most.
        return
    bare = _outside_strings(text, values)
    # Every value but the first of its list or object stands after a comma.
    if bare is None or sum(map(bare.count, _OPENING)) + bare.count(b",") >= values:
        raise TooLargeError(f"the body holds more than {values} values", hint="Send less, or raise the limit.")
    if _is_deeper(bare.translate(_ALIKE, _NOT_BRACKETS), depth):
        raise TooLargeError(f"the body is nested more than {depth} deep", hint="Send flatter JSON, or raise the limit.")


def _outside_strings(text: bytes, values: int) -> bytes | None:
    """The text without what its strings hold; None where it has more strings than so many values can."""
    plain = text.replace(rb"\\", b"").replace(rb"\"", b"")
    if plain.count(b'"') > _QUOTES_A_VALUE * values:
        return None
    return b"".join(plain.split(b'"')[::2])


def _is_deeper(brackets: bytes, depth: int) -> bool:
    """Takes away what holds nothing, as often as there are levels: each time is one search, however long it is."""
    for taken in range(depth):
        left = brackets.replace(b"[]", b"")
        if len(left) == len(brackets):
            # What is not closed, or closes nothing, is no JSON; but it is read as deep as it goes.
            return taken + left.count(b"[") > depth
        brackets = left
    return b"[" in brackets
