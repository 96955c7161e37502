"""Split bytes that arrive in arbitrary pieces into lines. Independent of what the lines mean."""

from __future__ import annotations

from ferrule.errors import EngineError

MAX_LINE = 16 * 2**20
"""In bytes. The longest legitimate lines hold a whole response, so the limit is generous; it guards against floods."""


class LineSplitter:
    """Splits at CR, LF and CRLF. A line is decoded when it is complete, so no character is cut in two."""

    __slots__ = ("_after_cr", "_is_first", "_max", "_partial", "_size")

    def __init__(self, max_line: int = MAX_LINE) -> None:
        self._max = max_line
        self._partial: list[bytes] = []
        self._size = 0
        self._after_cr = False
        self._is_first = True

    def feed(self, data: bytes) -> list[str]:
        """Return the lines that end in these bytes, without line ends."""
        if not data:
            return []
        ended_in_cr = data.endswith(b"\r")
        if self._after_cr and data.startswith(b"\n"):
            data = data[1:]
        self._after_cr = ended_in_cr
        lines: list[str] = []
        for piece in data.splitlines(keepends=True):
            content = piece.rstrip(b"\r\n")
            self._size += len(content)
            if self._size > self._max:
                raise too_long("a line", self._max)
            self._partial.append(content)
            if len(content) < len(piece):
                lines.append(self._take_line())
        return lines

    @property
    def is_at_line_start(self) -> bool:
        """Whether the next byte starts a line."""
        return not self._partial and not self._after_cr

    def skip_byte_order_mark(self) -> None:
        """Call this if you read the first line yourself: a byte order mark is no longer expected."""
        self._is_first = False

    def close(self) -> str:
        """Return what came after the last line end."""
        return self._take_line() if self._partial else ""

    def _take_line(self) -> str:
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
