"""Lines out of pieces of bytes, none longer than a limit. Of a longer one only its ends are kept. No IO.

The work is linear in the bytes, however they are cut: a server that sends fifty megabytes in one line costs their
reading and no more memory than the limit.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_ENDS = 512
# A server writes the id of its answer before the result or after it; in the middle nobody looks.
_ID = rb'"id"\s*:\s*(?:(\d{1,18})|"([^"\\]{1,200})")'
_FIRST = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?' + _ID)
_LAST = re.compile(_ID + rb'\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')


@dataclass(frozen=True, slots=True)
class Overlong:
    """A line that was not kept: its first bytes, its last, and how many there were."""

    head: bytes
    tail: bytes
    size: int

    @property
    def answers(self) -> int | str | None:
        """The id of the request that it answers, where that can be seen from its ends."""
        found = _FIRST.match(self.head) or _LAST.search(self.tail)
        if found is None:
            return None
        number, text = found.groups()
        return int(number) if number is not None else text.decode("utf-8", "replace")


class Lines:
    """Feed it pieces; it gives the lines that ended in them."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._parts: list[bytes] = []
        self._size = 0
        self._head = self._tail = b""

    def feed(self, piece: bytes) -> list[bytes | Overlong]:
        *ended, rest = piece.split(b"\n")
        found: list[bytes | Overlong] = []
        for part in ended:
            self._take(part)
            found.append(self._line())
        self._take(rest)
        return found

    def _take(self, part: bytes) -> None:
        was_kept = self._size <= self._most
        self._size += len(part)
        if self._size <= self._most:
            self._parts.append(part)
            return
        if was_kept:
            whole = b"".join(self._parts) + part
            self._head, self._tail = whole[:_ENDS], whole[-_ENDS:]
            self._parts.clear()
        else:
            self._head += part[: _ENDS - len(self._head)]
            self._tail = (self._tail + part[-_ENDS:])[-_ENDS:]

    def _line(self) -> bytes | Overlong:
        is_whole = self._size <= self._most
        line = b"".join(self._parts) if is_whole else Overlong(self._head, self._tail, self._size)
        self._parts.clear()
        self._size, self._head, self._tail = 0, b"", b""
        return line
