"""SkipGuard: decides whether skipping saves time on a backend.

It compares the time that recent answers took with the time that they would have taken without skipping. The cost of a
token and of a request comes from the answers themselves, so it reflects the current load. Does not read the clock.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

_WINDOW = 16
_MIN_ANSWERS = 8
_MIN_SPEEDUP = 1.0
SKIP_PAUSED = "forced text was not skipped: skipping saved no time in recent answers"
"""The note on the receipt of an answer for which the guard turned skipping off."""
# In answers. Long enough that the cost of trying again is small beside the answers in between.
_PAUSE = 64


@dataclass(slots=True)
class HoleTime:
    """The time that one request of an answer took, in seconds: until its first piece, and from there to its end."""

    first: float
    rest: float
    tokens: int


@dataclass(slots=True)
class AnswerTime:
    """The time that one answer took, request by request."""

    skipped: int = 0
    holes: list[HoleTime] = field(default_factory=list[HoleTime])

    @property
    def actual(self) -> float:
        return sum(hole.first + hole.rest for hole in self.holes)

    @property
    def without_skip(self) -> float | None:
        """The estimated time without skipping; None if too few tokens were generated to estimate it."""
        steps = sum(max(hole.tokens - 1, 0) for hole in self.holes)
        if not steps:
            return None
        token = sum(hole.rest for hole in self.holes) / steps
        generated = sum(hole.tokens for hole in self.holes)
        return self.holes[0].first + token * (generated + self.skipped - 1)


@dataclass(slots=True)
class SkipGuard:
    """Allows skipping while recent answers gained by it; otherwise turns it off for some answers, then tries again."""

    _answers: deque[tuple[float, float]] = field(default_factory=lambda: deque[tuple[float, float]](maxlen=_WINDOW))
    _answers_to_pause: int = 0

    def allows(self) -> bool:
        """Whether the next answer may skip. Call it once for every answer."""
        if self._answers_to_pause:
            self._answers_to_pause -= 1
            return False
        return True

    def add(self, answer: AnswerTime) -> None:
        without_skip = answer.without_skip
        if without_skip is None:
            return
        self._answers.append((without_skip, answer.actual))
        if len(self._answers) >= _MIN_ANSWERS and self.speedup < _MIN_SPEEDUP:
            self._answers_to_pause = _PAUSE
            self._answers.clear()

    @property
    def speedup(self) -> float:
        """How many times longer the recent answers would have taken without skipping; 1 before there are any."""
        actual = sum(actual for _, actual in self._answers)
        return sum(without_skip for without_skip, _ in self._answers) / actual if actual else 1.0
