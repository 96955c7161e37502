"""Trace: what every character of a reply was parsed as. Used to test that none is lost, and to debug a model."""

from __future__ import annotations

from typing import NamedTuple


class Span(NamedTuple):
    """A range of the model's text; `kind` is "text", "reasoning", "call", "markup" or "diagnostic"."""

    kind: str
    start: int
    end: int


class Trace:
    """Spans in order, without gaps: each begins where the previous one ended."""

    def __init__(self) -> None:
        self._spans: list[Span] = []
        self._at = 0

    def add(self, kind: str, end: int) -> None:
        if end > self._at:
            self._spans.append(Span(kind, self._at, end))
            self._at = end

    def clear(self) -> None:
        self._spans.clear()

    def spans(self) -> tuple[Span, ...]:
        return tuple(self._spans)
