"""Tool output: converts what a tool returns to JSON or text, and truncates it to what a model should read."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import logging
import pathlib
import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar, cast

from ferrule.core.history import without_surrogates
from ferrule.core.json_text import MAX_DIGITS, dumps

MAX_BYTES = 64 * 1024
_MAX_DEPTH = 64
_MAX_VALUES = 100_000
"""More than fits into the longest output."""
# The smallest integer that Python does not print: to print more digits takes time that grows with the square.
_LARGEST = 10**MAX_DIGITS
_T = TypeVar("_T")
_log = logging.getLogger(__name__)
_STRING_TYPES = (datetime.date, datetime.time, uuid.UUID, pathlib.PurePath, decimal.Decimal)


def to_json_value(value: Any) -> Any:
    """Convert any value to a JSON value. A value that JSON cannot represent becomes its text.

    Half of a surrogate pair becomes U+FFFD, because no tokenizer can encode it. The work is bounded, also for a value
    that contains itself: what nests too deeply, or comes after too many values, is replaced by a note.
    """
    return _Conversion().convert(value, 0)


class _Conversion:
    """Converts one value, and counts its parts."""

    __slots__ = ("_count",)

    def __init__(self) -> None:
        self._count = 0

    def convert(self, value: Any, depth: int) -> Any:
        self._count += 1
        if depth > _MAX_DEPTH:
            return "(nested too deeply)"
        if self._count > _MAX_VALUES:
            return f"(more than {_MAX_VALUES} values)"
        match value:
            case str():
                return without_surrogates(value)
            case None | bool():
                return value
            case int():
                return value if -_LARGEST < value < _LARGEST else f"(an integer of more than {MAX_DIGITS} digits)"
            case float():
                return value if value - value == 0 else str(value)
            case enum.Enum():
                return self.convert(value.value, depth + 1)
            case bytes():
                return value.decode("utf-8", "replace")
            case Mapping():
                pairs = cast("Mapping[Any, Any]", value).items()
                return {_text_of(key): self.convert(item, depth + 1) for key, item in self._first(pairs)}
            case list() | tuple() | set() | frozenset():
                return [self.convert(item, depth + 1) for item in self._first(cast("Iterable[Any]", value))]
            case _ if isinstance(value, _STRING_TYPES):
                return _text_of(value)
            case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
                return {f.name: self.convert(getattr(value, f.name), depth + 1) for f in dataclasses.fields(value)}
            case _:
                dump = getattr(value, "model_dump", None)
                return self.convert(dump(mode="json"), depth + 1) if callable(dump) else _text_of(value)

    def _first(self, items: Iterable[_T]) -> Iterator[_T]:
        """The items, up to the first that is one too many: a note stands for the others."""
        for item in items:
            yield item
            if self._count > _MAX_VALUES:
                return


def _text_of(value: object) -> str:
    """Return the text of any object, also of one that has none."""
    if isinstance(value, int):
        return str(to_json_value(value))
    try:
        return without_surrogates(str(value))
    # The object's own code runs here, and it may raise anything.
    except Exception as error:
        _log.warning("an object of the type %s in a tool's result has no text", type(value).__name__, exc_info=error)
        return f"({type(value).__name__})"


def truncate(content: Any, max_bytes: int = MAX_BYTES) -> Any:
    """Return the content, or its beginning and how much of it that is.

    The rest is gone: a model that needs it must ask the tool for less at a time.
    """
    text = content if isinstance(content, str) else dumps(content)
    data = text.encode("utf-8", "surrogatepass")
    if len(data) <= max_bytes:
        return content
    beginning = data[:max_bytes].decode("utf-8", "ignore")
    return f"{beginning}\n[truncated: {len(beginning)} of {len(text)} characters]"
