"""Tool output: converts what a tool returns to JSON or text, and truncates it to what a model should read.

Truncated output is kept for a while under a name, so that a model can fetch the rest piece by piece.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import logging
import pathlib
import uuid
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar, cast

from ferrule.core.history import without_surrogates
from ferrule.core.json_text import MAX_DIGITS, dumps

MAX_BYTES = 64 * 1024
_STORED_BYTES = 64 * 1024 * 1024
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


class TruncatedOutputs:
    """Full texts of truncated outputs, by name. When they take too much memory, the oldest are dropped."""

    def __init__(self, max_bytes: int = _STORED_BYTES) -> None:
        self._max_bytes = max_bytes
        self._size = 0
        self._texts: OrderedDict[str, str] = OrderedDict()

    def keep(self, name: str, text: str) -> None:
        self.drop(name)
        self._texts[name] = text
        self._size += len(text)
        while self._size > self._max_bytes and self._texts:
            self._size -= len(self._texts.popitem(last=False)[1])

    def drop(self, name: str) -> None:
        self._size -= len(self._texts.pop(name, ""))

    def fetch(self, name: str, start: int = 0, length: int = MAX_BYTES) -> str | None:
        """A piece of a stored text; None if it is not stored any more."""
        text = self._texts.get(name)
        return None if text is None else text[max(0, start) : max(0, start) + max(0, length)]


def truncate(content: Any, name: str, truncated_outputs: TruncatedOutputs, max_bytes: int = MAX_BYTES) -> Any:
    """Return the content, or its beginning with a note on how to get the rest."""
    text = content if isinstance(content, str) else dumps(content)
    size = len(text.encode("utf-8", "surrogatepass"))
    if size <= max_bytes:
        return content
    truncated_outputs.keep(name, text)
    beginning = text.encode("utf-8", "surrogatepass")[:max_bytes].decode("utf-8", "ignore")
    end = len(beginning)
    return f"{beginning}\n[cut: {end} of {len(text)} characters; the rest is kept as {name!r} from {end} on]"
