"""Log: what happened, a line each, as JSON for machines or in words for a terminal.

A line has fields of a fixed list and nothing else. None of them holds what a client, a model, a tool or an engine
wrote: names come from the configuration and our own tables, errors are told by their kind and place, never by their
text. A field that is not in the list cannot be written.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

Words = Sequence[str]
Value = str | int | float | bool | Words

# Each field with what it may hold. To add one is to say that it never holds anybody's text.
FIELDS: Mapping[str, type | tuple[type, ...]] = {
    "id": str,  # of the request, made here
    "api": str,  # the route's own path, with its parameters unnamed
    "principal": str,  # the name of the key in the configuration
    "model": str,  # as the configuration names it, whatever was asked for
    "engine": str,
    "status": int,
    "outcome": str,  # "ok", "left", or the code of an error's class
    "finish": str,
    "prompt_tokens": int,
    "completion_tokens": int,
    "events": int,
    "first_ms": float,
    "total_ms": float,
    "calls": (list, tuple),  # "tool=how": the gateway's own tools by name, a caller's as "caller"
    "more_calls": int,
    "tool": str,  # one of the gateway's own
    "kinds": (list, tuple),  # classes of errors, the last one first
    "stack": (list, tuple),  # module:line function
    "logger": str,
    "level": str,
    "place": str,
    "host": str,
    "port": int,
    "pid": int,
    "worker": int,
    "workers": int,
    "exit": int,
    "under_way": int,
    "seconds": float,
    "reason": str,  # one of our own words
    "count": int,
}
LONGEST = 200
MOST = 32


@dataclass(frozen=True, slots=True)
class Log:
    """`write` is given whole lines. One without it says nothing."""

    write: Callable[[str], None] | None = None
    is_for_people: bool = False
    clock: Callable[[], float] = time.time

    @staticmethod
    def to_stderr() -> Log:
        return Log(_to_stderr, is_for_people=sys.stderr.isatty())

    def tell(self, event: str, **fields: Value) -> None:
        """`event` is one of our own words. A field that the list does not have is a mistake of whoever calls."""
        if self.write is None:
            return
        told = {name: _plain(name, value) for name, value in fields.items()}
        now = datetime.fromtimestamp(self.clock(), UTC)
        if self.is_for_people:
            self.write(f"{now:%H:%M:%S} {event}{''.join(_shown(name, value) for name, value in told.items())}\n")
        else:
            stamp = now.isoformat(timespec="milliseconds").replace("+00:00", "Z")
            self.write(json.dumps({"at": stamp, "event": event, **told}) + "\n")


def _to_stderr(line: str) -> None:
    sys.stderr.write(line)
    sys.stderr.flush()


def _plain(name: str, value: Value) -> Value:
    kind = FIELDS[name]
    if isinstance(value, bool) or not isinstance(value, (int, float) if kind is float else kind):
        raise TypeError(f"the field {name} of a log is no {type(value).__name__}")
    match value:
        case str():
            return _word(value)
        case float():
            return round(value, 3)
        case int():
            return value
        case _:
            return [_word(str(one)) for one in value[:MOST]]


def _word(text: str) -> str:
    """One line, and not a long one."""
    return "".join(char if char.isprintable() else "?" for char in text[:LONGEST])


def _shown(name: str, value: Value) -> str:
    if isinstance(value, list):
        if name == "stack":
            return "".join(f"\n    {one}" for one in value)
        return f" {name}={','.join(map(str, value))}" if value else ""
    return f" {name}={value}" if value != "" else ""
