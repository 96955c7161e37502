"""LineReader: splits chunks of bytes into lines with a maximum length. It does no I/O.

Of a longer line only the beginning and the end are kept. The work is linear in the number of bytes, however they are
chunked: a server that sends fifty megabytes in one line costs no more memory than the limit.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_ENDS = 512
# A server writes the id of its answer before or after the result, so only the ends of a long line are searched for it.
_ID = rb'"id"\s*:\s*(?:(\d{1,18})|"([^"\\]{1,200})")'
_FIRST = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?' + _ID)
_LAST = re.compile(_ID + rb'\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')


@dataclass(frozen=True, slots=True)
class OverlongLine:
    """A line over the limit: its first bytes, its last bytes and its size."""

    head: bytes
    tail: bytes
    size: int

    @property
    def answers(self) -> int | str | None:
        """The id of the request that it answers, if its ends show it."""
        match = _FIRST.match(self.head) or _LAST.search(self.tail)
        if match is None:
            return None
        number, text = match.groups()
        return int(number) if number is not None else text.decode("utf-8", "replace")


class LineReader:
    """Feed it chunks; it returns the lines that they complete."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._parts: list[bytes] = []
        self._size = 0
        self._head = self._tail = b""

    def feed(self, piece: bytes) -> list[bytes | OverlongLine]:
        *ended, rest = piece.split(b"\n")
        lines: list[bytes | OverlongLine] = []
        for part in ended:
            self._take(part)
            lines.append(self._line())
        self._take(rest)
        return lines

    def _take(self, part: bytes) -> None:
        was_kept = self._size <= self._max_bytes
        self._size += len(part)
        if self._size <= self._max_bytes:
            self._parts.append(part)
            return
        if was_kept:
            whole = b"".join(self._parts) + part
            self._head, self._tail = whole[:_ENDS], whole[-_ENDS:]
            self._parts.clear()
        else:
            self._head += part[: _ENDS - len(self._head)]
            self._tail = (self._tail + part[-_ENDS:])[-_ENDS:]

    def _line(self) -> bytes | OverlongLine:
        is_whole = self._size <= self._max_bytes
        line = b"".join(self._parts) if is_whole else OverlongLine(self._head, self._tail, self._size)
        self._parts.clear()
        self._size, self._head, self._tail = 0, b"", b""
        return line
