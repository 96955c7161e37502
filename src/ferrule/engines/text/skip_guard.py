"""SkipGuard: whether skipping pays on a backend, by what answers took beside what they would have taken whole.

The price of a token and of one more request are those of the answers themselves, so that they are of the load that
there is. Counts; knows no clock.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

_WINDOW = 16
_ENOUGH = 8
_LEAST_GAIN = 1.0
PAUSED = "forced text was generated: the last answers gained nothing by skipping it"
"""What the receipt of an answer says that was not skipped."""
# Long enough that the price of looking again is lost among the answers that are written whole.
_PAUSE = 64


@dataclass(slots=True)
class HoleTime:
    """What one request of an answer took: until its first piece, and from there to its end."""

    first: float
    rest: float
    tokens: int


@dataclass(slots=True)
class AnswerTime:
    """What one answer took in all."""

    skipped: int = 0
    holes: list[HoleTime] = field(default_factory=list[HoleTime])

    @property
    def taken(self) -> float:
        return sum(hole.first + hole.rest for hole in self.holes)

    @property
    def whole(self) -> float | None:
        """What it would have taken token by token; None where too few were generated to say."""
        steps = sum(max(hole.tokens - 1, 0) for hole in self.holes)
        if not steps:
            return None
        token = sum(hole.rest for hole in self.holes) / steps
        generated = sum(hole.tokens for hole in self.holes)
        return self.holes[0].first + token * (generated + self.skipped - 1)


@dataclass(slots=True)
class SkipGuard:
    """Lets skipping be as long as the last answers gained by it; else switches it off for a while, and looks again."""

    _seen: deque[tuple[float, float]] = field(default_factory=lambda: deque[tuple[float, float]](maxlen=_WINDOW))
    _paused: int = 0

    def allows(self) -> bool:
        """Asked once for every answer."""
        if self._paused:
            self._paused -= 1
            return False
        return True

    def add(self, answer: AnswerTime) -> None:
        whole = answer.whole
        if whole is None:
            return
        self._seen.append((whole, answer.taken))
        if len(self._seen) >= _ENOUGH and self.gain < _LEAST_GAIN:
            self._paused = _PAUSE
            self._seen.clear()

    @property
    def gain(self) -> float:
        """How many times longer the last answers would have taken whole; 1 before there are any."""
        taken = sum(taken for _, taken in self._seen)
        return sum(whole for whole, _ in self._seen) / taken if taken else 1.0
