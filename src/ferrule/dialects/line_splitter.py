"""Lines out of bytes that arrive in any pieces. Knows nothing of what the lines mean."""

from __future__ import annotations

from ferrule.errors import EngineError

MAX_LINE = 16 * 2**20
"""Bytes. The longest honest lines hold a whole response, so the bound is generous; it is there against a flood."""


class LineSplitter:
    """Splits at CR, LF and CRLF. A line is decoded when it is whole, so no cut falls inside a character."""

    __slots__ = ("_after_cr", "_is_first", "_max", "_partial", "_size")

    def __init__(self, max_line: int = MAX_LINE) -> None:
        self._max = max_line
        self._partial: list[bytes] = []
        self._size = 0
        self._after_cr = False
        self._is_first = True

    def feed(self, data: bytes) -> list[str]:
        """The lines that end in these bytes, without their ends."""
        if not data:
            return []
        ended_in_cr = data.endswith(b"\r")
        if self._after_cr and data.startswith(b"\n"):
            data = data[1:]
        self._after_cr = ended_in_cr
        lines: list[str] = []
        for piece in data.splitlines(keepends=True):
            bare = piece.rstrip(b"\r\n")
            self._size += len(bare)
            if self._size > self._max:
                raise too_long("a line", self._max)
            self._partial.append(bare)
            if len(bare) < len(piece):
                lines.append(self._taken())
        return lines

    @property
    def is_between(self) -> bool:
        """Whether the next byte begins a line."""
        return not self._partial and not self._after_cr

    def has_begun(self) -> None:
        """Whoever read the first line himself says so."""
        self._is_first = False

    def close(self) -> str:
        """What came after the last line end."""
        return self._taken() if self._partial else ""

    def _taken(self) -> str:
        line = b"".join(self._partial).decode("utf-8", "replace")
        self._partial.clear()
        self._size = 0
        if self._is_first:
            self._is_first = False
            return line.removeprefix("\ufeff")
        return line


def too_long(what: str, limit: int) -> EngineError:
    return EngineError(
        f"{what} of the stream is longer than {limit} bytes",
        code="stream_too_long",
        hint="Ask for a shorter answer, or raise the limit if the sender is trusted.",
    )
