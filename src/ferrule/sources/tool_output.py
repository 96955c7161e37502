"""Tool output: converts what a tool returns to JSON or text, and truncates it to what a model should read.

Truncated output is kept for a while under a name, so that a model can fetch the rest piece by piece.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import pathlib
import uuid
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any, cast

from ferrule.core.json_text import dumps

MAX_BYTES = 64 * 1024
_STORED_BYTES = 64 * 1024 * 1024
_MAX_DEPTH = 64
_STRING_TYPES = (datetime.date, datetime.time, uuid.UUID, pathlib.PurePath, decimal.Decimal)


def to_json_value(value: Any, depth: int = 0) -> Any:
    """Convert any value to a JSON value. A value that JSON cannot represent becomes its text."""
    if depth > _MAX_DEPTH:
        return "(nested too deeply)"
    match value:
        case str() | None | bool() | int():
            return value
        case float():
            return value if value - value == 0 else str(value)
        case enum.Enum():
            return to_json_value(value.value, depth + 1)
        case bytes():
            return value.decode("utf-8", "replace")
        case Mapping():
            pairs = cast("Mapping[Any, Any]", value)
            return {str(key): to_json_value(item, depth + 1) for key, item in pairs.items()}
        case list() | tuple() | set() | frozenset():
            return [to_json_value(item, depth + 1) for item in cast("Iterable[Any]", value)]
        case _ if isinstance(value, _STRING_TYPES):
            return str(value)
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return {f.name: to_json_value(getattr(value, f.name), depth + 1) for f in dataclasses.fields(value)}
        case _:
            dump = getattr(value, "model_dump", None)
            return to_json_value(dump(mode="json"), depth + 1) if callable(dump) else str(value)


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
