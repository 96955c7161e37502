"""JSON as text: one format for writing, strict reading.

Python's own reader accepts NaN and Infinity, and its writer can print them; neither is JSON, so both are refused.

Numbers have one meaning in every call that is handed on, because it was read by `loads_exact`. A whole number is exact,
up to `MAX_DIGITS` digits. A number with a fraction or an exponent is the nearest double, and is refused if the nearest
double is another kind of number: infinity (1e400), zero (1e-400), or whole where the text is not
(10000000000000000.5). What is handed on is the text as written.

The format (", " and ": ", no ASCII escapes) is the one that chat templates produce, so rendered calls equal theirs.
"""

from __future__ import annotations

import hashlib
import json
from decimal import Decimal
from math import isinf

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


def loads_exact(text: str) -> object:
    """Like `loads`, and raises `ValueError` for a number that would be read as another one."""
    return _decode_exact(text)


def loads_strict(text: str) -> object:
    """Like `loads_exact`, and raises `ValueError` for an object with a key that occurs twice: readers differ on it."""
    return _decode_strict(text)


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


MAX_DIGITS = 4_300
"""The most digits of a whole number: Python's own limit, because to read more takes time that grows with the square."""


def _read_integer(text: str) -> int:
    if len(text.lstrip("-")) > MAX_DIGITS:
        raise ValueError(f"the number {text:.20}... has more than {MAX_DIGITS} digits")
    return int(text)


def _read_float(text: str) -> float:
    value = float(text)
    mantissa = text.lower().partition("e")[0]
    is_lost = isinf(value) or (value == 0 and any(digit in "123456789" for digit in mantissa))
    if is_lost or (value.is_integer() and not _is_whole(text)):
        raise ValueError(f"the number {text:.40} is too large or too precise to be read")
    return value


def _is_whole(text: str) -> bool:
    number = Decimal(text)
    return number == number.to_integral_value()


def _read_object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a key occurs twice")
    return members


_decoder = json.JSONDecoder(parse_constant=_refuse_constant)
_decode_exact = json.JSONDecoder(
    parse_constant=_refuse_constant, parse_int=_read_integer, parse_float=_read_float
).decode
_decode_strict = json.JSONDecoder(
    parse_constant=_refuse_constant,
    parse_int=_read_integer,
    parse_float=_read_float,
    object_pairs_hook=_read_object,
).decode
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
