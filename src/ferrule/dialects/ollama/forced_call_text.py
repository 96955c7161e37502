"""Read the text of a forced call while it arrives: `{"name": "...", "arguments": {...}}`."""

from __future__ import annotations

import re
from typing import Any, cast

from ferrule.core.event import Diagnostic
from ferrule.core.json_text import loads
from ferrule.dialects.incoming_calls import IncomingCalls
from ferrule.dialects.lenient_json import json_text
from ferrule.schema.reader import Reader

_HEAD = re.compile(r'\s*\{\s*"name"\s*:\s*("(?:[^"\\]|\\.)*")\s*,\s*"(?:arguments|parameters)"\s*:\s*(?=\S)')
_TAIL = re.compile(r"\s*\}?\s*")


class ForcedText:
    """Feeds one call. Unexpected text goes into the arguments, or into a diagnostic at the end."""

    def __init__(self, calls: IncomingCalls) -> None:
        self._calls = calls
        self._slot: int | None = None
        self._reader = Reader()
        self._text = ""

    def feed(self, text: str) -> None:
        self._text += text
        if self._slot is None:
            head = _HEAD.match(self._text)
            name = _name(head[1]) if head else ""
            if head is None or not name:
                return
            self._slot = self._calls.open()
            self._calls.name(self._slot, name)
            self._text = self._text[head.end() :]
        self._read(self._slot)

    def close(self) -> Diagnostic | None:
        """Return a diagnostic for text that belongs to no call."""
        if self._slot is None:
            return self._read_whole()
        if not self._reader.is_done:
            self._calls.arguments(self._slot, self._text)
            return None
        rest = self._text[_end_of_tail(self._text) :]
        return Diagnostic("text_after_call", "there was text after the call", rest) if rest else None

    def _read(self, slot: int) -> None:
        if self._reader.is_done:
            return
        end = len(self._text) if self._reader.is_bad else self._reader.read(self._text, 0, False)
        self._calls.arguments(slot, self._text[:end])
        self._text = self._text[end:]

    def _read_whole(self) -> Diagnostic | None:
        """Read a call whose fields came in another order, which is only possible at the end."""
        try:
            value = loads(self._text)
        except (ValueError, RecursionError):
            value = None
        call = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
        name, arguments = call.get("name"), call.get("arguments", call.get("parameters"))
        if isinstance(name, str) and name and arguments is not None:
            slot = self._calls.open()
            self._calls.name(slot, name)
            self._calls.arguments(slot, json_text(arguments))
            return None
        return Diagnostic("no_call", "a call was required, but the answer is not one", self._text)


def _name(quoted: str) -> str:
    """Return the decoded string, "" if it is not valid JSON."""
    try:
        return str(loads(quoted))
    except ValueError:
        return ""


def _end_of_tail(text: str) -> int:
    tail = _TAIL.match(text)
    return tail.end() if tail else 0
