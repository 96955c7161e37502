"""Check that a Python value is JSON, and that it is small and shallow enough to process.

This check runs before all others and stops as soon as a limit is exceeded. A hostile value, such as one list referenced
a million times or a list that contains itself, therefore costs no more than the limit. This module does not depend on
schemas.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

from ferrule.errors import SchemaError
from ferrule.schema.pointer import escape

_DIGITS_PER_BIT = math.log10(2)
# Python refuses to convert integers of more than 4,300 digits to text; no schema needs a tenth of that.
_MOST_DIGITS = 400


def measure(value: object, *, max_bytes: int, max_depth: int) -> int:
    """The size of a value as compact JSON in bytes, without escapes. Raises `SchemaError` if it exceeds a limit."""
    total = 0
    pending: list[tuple[object, str, int]] = [(value, "", 0)]
    while pending:
        item, path, depth = pending.pop()
        if depth > max_depth:
            raise SchemaError(
                f"the schema is nested more than {max_depth} levels deep",
                code="too_deep",
                path=path,
                hint="Flatten the schema, or move inner parts to $defs and refer to them.",
            )
        if isinstance(item, dict):
            members = cast("dict[object, object]", item)
            total += 2 + len(members)
            for key, inner in members.items():
                if not isinstance(key, str):
                    raise _not_json(f"the key {key!r:.40} is not a string", path)
                total += _string_bytes(key, path) + 1
                pending.append((inner, f"{path}/{escape(key)}", depth + 1))
                _refuse_over(total, max_bytes)
        elif isinstance(item, list | tuple):
            entries = cast("list[object] | tuple[object, ...]", item)
            total += 2 + len(entries)
            _refuse_over(total, max_bytes)
            pending.extend((inner, f"{path}/{index}", depth + 1) for index, inner in enumerate(entries))
        else:
            total += _scalar_bytes(item, path)
        _refuse_over(total, max_bytes)
    return total


def _refuse_over(total: int, max_bytes: int) -> None:
    if total > max_bytes:
        raise SchemaError(
            f"the schema is larger than {max_bytes} bytes",
            code="too_large",
            hint="Shorten descriptions and enums, or split the tool into several.",
        )


def _string_bytes(text: str, path: str) -> int:
    try:
        return 2 + len(text.encode())
    except UnicodeEncodeError:
        raise _not_json("a string contains half of a surrogate pair", path) from None


def _float_bytes(number: float, path: str) -> int:
    if not math.isfinite(number):
        raise _not_json(f"{number} is not JSON", path)
    return len(repr(number))


def _int_bytes(number: int, path: str) -> int:
    # Computed, not printed: the time to print an integer grows with the square of its length.
    digits = int(number.bit_length() * _DIGITS_PER_BIT) + 1
    if digits > _MOST_DIGITS:
        raise SchemaError(
            f"an integer has more than {_MOST_DIGITS} digits",
            code="too_large",
            path=path,
            hint="Use a smaller number, or a string with a pattern.",
        )
    return digits


def _word_bytes(word: bool | None, path: str) -> int:
    return 4


_BYTES: dict[type, Callable[[Any, str], int]] = {
    type(None): _word_bytes,
    bool: _word_bytes,
    int: _int_bytes,
    float: _float_bytes,
    str: _string_bytes,
}


def _scalar_bytes(item: object, path: str) -> int:
    count = _BYTES.get(type(item))
    if count is None:
        raise _not_json(f"{type(item).__name__} is not a JSON type", path)
    return count(item, path)


def _not_json(message: str, path: str) -> SchemaError:
    return SchemaError(
        message,
        code="not_a_schema",
        path=path,
        hint="Use only objects with string keys, arrays, strings, finite numbers, booleans and null.",
    )
