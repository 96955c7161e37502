"""JSON as text: one format for writing, strict reading.

Python's own reader accepts NaN and Infinity, and its writer can print them; neither is JSON, so both are refused. The
format (", " and ": ", no ASCII escapes) is the one that chat templates produce, so rendered calls equal theirs.
"""

from __future__ import annotations

import hashlib
import json

import msgspec

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
_encode_canonical = json.JSONEncoder(ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")).encode


def dumps(value: object) -> str:
    """Return the JSON text of a value, formatted as chat templates do."""
    return _encode(value)


def canonical(value: object) -> str:
    """Return the canonical text of a value, the same for any order of keys. It is what is hashed and compared."""
    return _encode_canonical(value)


def loads(text: str) -> object:
    """Return the value of a JSON text. Raises `ValueError` for anything that is not exactly JSON."""
    return _decode(text)


def value_at(text: str, at: int) -> tuple[object, int]:
    """Return the value that begins at this position and where it ends. Raises `ValueError` if there is none."""
    return _decode_at(text, at)


def digest(value: object) -> str:
    """Return the full SHA-256 of a JSON value: for what a person approved and an attacker might want to replace."""
    return hashlib.sha256(canonical(value).encode("utf-8", "surrogatepass")).hexdigest()


def fingerprint(value: object) -> str:
    """Return a short stable hash of a JSON value, for values that nobody has a reason to forge."""
    return digest(value)[:16]


def escape_text(text: str) -> str:
    """Return a text as in a JSON string, without the quotes."""
    return _encode(text)[1:-1]


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


_decoder = json.JSONDecoder(parse_constant=_refuse_constant)
_decode, _decode_at = _decoder.decode, _decoder.raw_decode


# Fast JSON for the events of streams, in and out. The only module that imports msgspec.
#
# It is ten times faster than the standard library and gives the same results: what msgspec treats differently (half
# of a surrogate pair, a number too large for a float) is read and written by `json_text`.

_decode_bytes = msgspec.json.Decoder().decode
_encode_bytes = msgspec.json.Encoder().encode


def read_json(text: str) -> object:
    """Return the value of a JSON text. Raises `ValueError` for anything that is not exactly JSON."""
    try:
        return _decode_bytes(text)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return loads(text)


def json_bytes(value: object) -> bytes:
    """Return a value as compact JSON on one line. It may contain strings, integers and finite floats."""
    try:
        return _encode_bytes(value)
    except UnicodeEncodeError:
        # Half of a surrogate pair has no UTF-8; its escape means the same in JSON.
        return dumps(value).encode("utf-8", "backslashreplace")
