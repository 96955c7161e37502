"""JSON objects, one to a line, out of bytes that arrive in any pieces. Knows nothing of what they mean."""

from __future__ import annotations

from typing import Any, cast

from ferrule.core.json_text import loads
from ferrule.dialects.lines import MAX_LINE, LineSplitter
from ferrule.errors import EngineError


class NdjsonDecoder:
    __slots__ = ("_lines",)

    def __init__(self, *, max_line: int = MAX_LINE) -> None:
        self._lines = LineSplitter(max_line)

    def feed(self, data: bytes) -> list[dict[str, Any]]:
        return [_object(line) for line in self._lines.feed(data) if line.strip()]

    def close(self) -> list[dict[str, Any]]:
        """The object after the last line end, where the sender forgot to end the line."""
        rest = self._lines.close()
        return [_object(rest)] if rest.strip() else []


def _object(line: str) -> dict[str, Any]:
    try:
        value = loads(line)
    except (ValueError, RecursionError) as error:
        raise _refusal(line) from error
    if not isinstance(value, dict):
        raise _refusal(line)
    return cast("dict[str, Any]", value)


def _refusal(line: str) -> EngineError:
    return EngineError(
        f"a line of the stream is not a JSON object: {line[:60]!r}",
        code="bad_stream",
        hint="See whether the address is that of the engine, and whether something between cuts its answers off.",
    )
