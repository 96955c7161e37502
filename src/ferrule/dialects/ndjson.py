"""Decode newline-delimited JSON from bytes that arrive in arbitrary pieces."""

from __future__ import annotations

from typing import Any

from ferrule.dialects.json_stream import object_of
from ferrule.dialects.line_splitter import MAX_LINE, LineSplitter


class NdjsonDecoder:
    __slots__ = ("_lines",)

    def __init__(self, *, max_line: int = MAX_LINE) -> None:
        self._lines = LineSplitter(max_line)

    def feed(self, data: bytes) -> list[dict[str, Any]]:
        return [object_of(line) for line in self._lines.feed(data) if line.strip()]

    def close(self) -> list[dict[str, Any]]:
        """Return the object after the last line end, if the sender did not end the last line."""
        rest = self._lines.close()
        return [object_of(rest)] if rest.strip() else []
