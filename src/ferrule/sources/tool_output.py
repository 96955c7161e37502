"""Shape: what a tool gave, whatever it is, as text or JSON, once, and never more of it than a model should read.

What is over the limit is kept for a while under a name, so that it can be fetched piece by piece instead of being lost.
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
_KEPT_BYTES = 64 * 1024 * 1024
_DEEPEST = 64
_TEXTUAL = (datetime.date, datetime.time, uuid.UUID, pathlib.PurePath, decimal.Decimal)


def shaped(value: Any, depth: int = 0) -> Any:
    """A value as JSON has it. What has no faithful JSON becomes its text."""
    if depth > _DEEPEST:
        return "(nested too deeply)"
    match value:
        case str() | None | bool() | int():
            return value
        case float():
            return value if value - value == 0 else str(value)
        case enum.Enum():
            return shaped(value.value, depth + 1)
        case bytes():
            return value.decode("utf-8", "replace")
        case Mapping():
            pairs = cast("Mapping[Any, Any]", value)
            return {str(key): shaped(held, depth + 1) for key, held in pairs.items()}
        case list() | tuple() | set() | frozenset():
            return [shaped(held, depth + 1) for held in cast("Iterable[Any]", value)]
        case _ if isinstance(value, _TEXTUAL):
            return str(value)
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return {f.name: shaped(getattr(value, f.name), depth + 1) for f in dataclasses.fields(value)}
        case _:
            dump = getattr(value, "model_dump", None)
            return shaped(dump(mode="json"), depth + 1) if callable(dump) else str(value)


class Remainders:
    """What was too long to show, by name; the oldest go first when there is too much of it."""

    def __init__(self, most_bytes: int = _KEPT_BYTES) -> None:
        self._most = most_bytes
        self._size = 0
        self._held: OrderedDict[str, str] = OrderedDict()

    def keep(self, name: str, text: str) -> None:
        self.drop(name)
        self._held[name] = text
        self._size += len(text)
        while self._size > self._most and self._held:
            self._size -= len(self._held.popitem(last=False)[1])

    def drop(self, name: str) -> None:
        self._size -= len(self._held.pop(name, ""))

    def fetch(self, name: str, start: int = 0, length: int = MAX_BYTES) -> str | None:
        """A piece of what was kept; None where it is gone."""
        held = self._held.get(name)
        return None if held is None else held[max(0, start) : max(0, start) + max(0, length)]


def capped(content: Any, name: str, remainders: Remainders, most_bytes: int = MAX_BYTES) -> Any:
    """The content, or its beginning with a word on how to get the rest."""
    text = content if isinstance(content, str) else dumps(content)
    size = len(text.encode("utf-8", "surrogatepass"))
    if size <= most_bytes:
        return content
    remainders.keep(name, text)
    shown = text.encode("utf-8", "surrogatepass")[:most_bytes].decode("utf-8", "ignore")
    return f"{shown}\n[cut: {len(shown)} of {len(text)} characters; the rest is kept as {name!r} from {len(shown)} on]"
