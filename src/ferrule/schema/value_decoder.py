"""Decode a value that a format writes without its type: raw text and the schema's types give JSON text.

The raw text is read as exact JSON of an allowed type; otherwise, if the format allows it, as a Python literal of an
allowed type; otherwise as a string, if a string is allowed; otherwise as a string with `ok` false, so that the checker
reports the fault. A value is never turned into null, false or NaN. `encode` is the inverse. This module does not depend
on any wire format.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from ferrule.core.json_text import dumps, loads
from ferrule.schema.metaschema import TYPES
from ferrule.schema.notation import JSON, PYTHON, Notation
from ferrule.schema.reader import Reader, normalize_json
from ferrule.schema.refs import local_target
from ferrule.schema.value_text import loads_verbatim

ALL_TYPES = frozenset(TYPES)
_STRING_ONLY = frozenset({"string"})
_NOT_SPACE = re.compile(r"[^ \t\r\n]")
_HALF_A_PAIR = re.compile(r"[\ud800-\udfff]")
_NUMBER = re.compile(r"-?([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?)0*([0-9]*))?")
_TYPE_BY_START = {"{": "object", "[": "array", '"': "string", "t": "boolean", "f": "boolean", "n": "null"}
# An exponent with more digits than this exceeds the number of digits that fit in memory.
_LONGEST_EXPONENT = 12


@dataclass(frozen=True, slots=True)
class DecodedValue:
    """A decoded value. `json_text` is always valid JSON; `ok` says whether the schema allows its type."""

    json_text: str
    ok: bool
    duplicate_keys: tuple[str, ...] = ()
    """The keys that occurred more than once in an object. The first occurrence is kept."""


def decode(raw: str, allowed: frozenset[str], python_literals: bool = False) -> DecodedValue:
    """Decode a raw value to JSON text, given the types that its schema allows."""
    if allowed == _STRING_ONLY:
        return DecodedValue(_string(raw), True)
    for notation in (JSON, PYTHON) if python_literals else (JSON,):
        reader = Reader(notation, strict_depth=0)
        text = _read(raw, notation, reader)
        if text is not None and _is_allowed(text, allowed):
            return DecodedValue(text, True, tuple(reader.duplicate_keys))
    return DecodedValue(_string(raw), "string" in allowed)


def encode(json_text: str, allowed: frozenset[str], python_literals: bool = False) -> str | None:
    """Write a value so that `decode` returns it; None if that is impossible.

    Raises `ValueError` if the text is not JSON.
    """
    text = normalize_json(json_text)
    if text.startswith('"'):
        raw = str(loads(text))
        if decode(raw, allowed, python_literals) == DecodedValue(text, True):
            return raw
    return text if decode(text, allowed, python_literals) == DecodedValue(text, True) else None


def _string(raw: str) -> str:
    # Half a surrogate pair cannot be encoded as UTF-8, so it is written as an escape, and nothing is lost.
    return _HALF_A_PAIR.sub(lambda half: f"\\u{ord(half[0]):04x}", dumps(raw))


def _read(raw: str, notation: Notation, reader: Reader) -> str | None:
    """The raw text as JSON text, with numbers as written; None if it is not exactly one value of the notation."""
    end = reader.read(raw, 0, True)
    if not reader.is_done or _NOT_SPACE.search(raw, end):
        return None
    if notation is JSON and not _is_strict(raw):
        return None
    return reader.take()


def _is_strict(raw: str) -> bool:
    """Whether the text is strict JSON. The reader also accepts line breaks inside strings."""
    try:
        loads_verbatim(raw)
    except (ValueError, RecursionError):
        return False
    return True


def _is_allowed(json_text: str, allowed: frozenset[str]) -> bool:
    named = _TYPE_BY_START.get(json_text[0])
    if named is not None:
        return named in allowed
    return "number" in allowed or ("integer" in allowed and is_whole(json_text))


def is_whole(number: str) -> bool:
    """Whether a JSON number has no fraction, decided from its text, because a float could not hold every number."""
    match = _NUMBER.fullmatch(number)
    if match is None:
        return False
    whole, fraction, sign, exponent = match[1], match[2] or "", match[3], match[4] or "0"
    digits = (whole + fraction).lstrip("0")
    if not digits:
        return True
    if len(exponent) > _LONGEST_EXPONENT:
        return sign != "-"
    shift = int(exponent) * (-1 if sign == "-" else 1)
    trailing_zeros = len(digits) - len(digits.rstrip("0"))
    return shift - len(fraction) + trailing_zeros >= 0


def types_allowed(schema: object, root: object) -> frozenset[str]:
    """The JSON types that a schema allows; all types if it does not restrict them. "number" always includes "integer".

    `root` is the whole schema, in which local references are resolved. The result is an upper bound: `not` and `if` are
    ignored.
    """
    return _types(schema, root, frozenset()) or ALL_TYPES


def _types(schema: object, root: object, above: frozenset[int]) -> frozenset[str]:
    if schema is False:
        return frozenset()
    if not isinstance(schema, dict) or id(cast(object, schema)) in above:
        return ALL_TYPES
    fields = cast("dict[str, object]", schema)
    inside = above | {id(fields)}

    def of(inner: object) -> frozenset[str]:
        return _types(inner, root, inside)

    type_sets = [limit(fields[keyword], of, root) for keyword, limit in _LIMITS.items() if keyword in fields]
    return ALL_TYPES.intersection(*type_sets)


def _by_type(named: object, of: Callable[[object], frozenset[str]], root: object) -> frozenset[str]:
    names = {named} if isinstance(named, str) else set(_entries(named))
    return ALL_TYPES & (names | {"integer"} if "number" in names else names)


def _by_values(values: object, of: Callable[[object], frozenset[str]], root: object) -> frozenset[str]:
    names = {type_name(value) for value in _entries(values)}
    return frozenset(names | {"integer"} if "number" in names else names)


def _by_value(value: object, of: Callable[[object], frozenset[str]], root: object) -> frozenset[str]:
    return _by_values([value], of, root)


def _by_any(schemas: object, of: Callable[[object], frozenset[str]], root: object) -> frozenset[str]:
    return frozenset[str]().union(*map(of, _entries(schemas)))


def _by_all(schemas: object, of: Callable[[object], frozenset[str]], root: object) -> frozenset[str]:
    return ALL_TYPES.intersection(*map(of, _entries(schemas)))


def _by_ref(ref: object, of: Callable[[object], frozenset[str]], root: object) -> frozenset[str]:
    target = local_target(ref, root)
    return ALL_TYPES if target is None else of(target)


def _entries(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


_LIMITS: dict[str, Callable[[object, Callable[[object], frozenset[str]], object], frozenset[str]]] = {
    "type": _by_type,
    "enum": _by_values,
    "const": _by_value,
    "anyOf": _by_any,
    "oneOf": _by_any,
    "allOf": _by_all,
    "$ref": _by_ref,
}


def type_name(value: object) -> str:
    """The JSON Schema type of a Python value. As in JSON Schema, a float without a fraction is an integer."""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, float):
        return "integer" if value.is_integer() else "number"
    return _TYPE_NAMES.get(type(value), "object")


_TYPE_NAMES: dict[type, str] = {
    type(None): "null",
    int: "integer",
    str: "string",
    list: "array",
    tuple: "array",
    dict: "object",
}
