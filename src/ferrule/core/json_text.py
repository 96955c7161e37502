"""JSON as text: one spelling out, strict reading in.

Python's own reader lets NaN and Infinity through and its writer can print them; neither is JSON, so both are refused.
The spelling (", " and ": ", no ASCII escapes) is the one that chat templates produce, so rendered calls equal theirs.
"""

from __future__ import annotations

import hashlib
import json

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
_encode_canonical = json.JSONEncoder(ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")).encode


def dumps(value: object) -> str:
    """The JSON text of a value, spelled as chat templates spell it."""
    return _encode(value)


def canonical(value: object) -> str:
    """The one text of a value whatever the order of its keys: what is hashed and compared."""
    return _encode_canonical(value)


def loads(text: str) -> object:
    """The value of a JSON text; `ValueError` for anything that is not exactly JSON."""
    return _decode(text)


def value_at(text: str, at: int) -> tuple[object, int]:
    """The value that begins at this place of a text, and where it ends; `ValueError` where none does, or not whole."""
    return _decode_at(text, at)


def digest(value: object) -> str:
    """The whole hash of a JSON value: for what somebody agreed to, and somebody else might want to exchange."""
    return hashlib.sha256(canonical(value).encode("utf-8", "surrogatepass")).hexdigest()


def fingerprint(value: object) -> str:
    """A short stable name for a JSON value, for telling things apart that nobody forges."""
    return digest(value)[:16]


def escaped(text: str) -> str:
    """The inside of the JSON string for a text: without its quotes."""
    return _encode(text)[1:-1]


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


_decoder = json.JSONDecoder(parse_constant=_refuse_constant)
_decode, _decode_at = _decoder.decode, _decoder.raw_decode
