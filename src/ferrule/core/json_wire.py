"""JSON where there is much of it and it is ours to spell: the events of streams, in and out. Owner of msgspec.

Ten times faster than the standard library and with the same meaning: what msgspec takes differently (half of a
surrogate pair, a number too large for a float) is read and written by `json_text`.
"""

from __future__ import annotations

import msgspec

from ferrule.core.json_text import dumps, loads

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


def read_json(text: str) -> object:
    """The value of a JSON text; `ValueError` for anything that is not exactly JSON."""
    try:
        return _decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return loads(text)


def json_bytes(value: object) -> bytes:
    """A value of texts, whole numbers and finite ones as compact JSON, on one line."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        # Half of a surrogate pair has no UTF-8; inside JSON its escape means the same.
        return dumps(value).encode("utf-8", "backslashreplace")
