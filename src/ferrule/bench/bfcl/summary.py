"""Answers scored and counted, category by category. No IO."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ferrule.bench.bfcl.answers import Answer
from ferrule.bench.bfcl.categories import MANNERS, Category
from ferrule.bench.bfcl.miss import Miss, Reason
from ferrule.bench.bfcl.score import miss_of
from ferrule.bench.bfcl.tasks import Task

_NORMAL_95: Final = 1.959964


@dataclass(slots=True)
class Tally:
    """The answers to one category's questions. `refused` counts calls that were written and not handed on."""

    answered: int = 0
    right: int = 0
    misses: Counter[Reason] = field(default_factory=Counter[Reason])
    cut_off: int = 0
    refused: int = 0
    tokens: int = 0

    def add(self, answer: Answer, miss: Miss | None) -> None:
        self.answered += 1
        self.cut_off += answer.is_cut_off
        self.refused += answer.refused
        self.tokens += answer.tokens
        if miss is None:
            self.right += 1
        else:
            self.misses[miss.reason] += 1

    @property
    def share(self) -> float:
        return self.right / self.answered if self.answered else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """Where the share of all such questions lies, 95 times of 100, by Wilson's formula."""
        if not self.answered:
            return 0.0, 1.0
        n, z = self.answered, _NORMAL_95
        middle = (self.share + z * z / (2 * n)) / (1 + z * z / n)
        half = z / (1 + z * z / n) * math.sqrt(self.share * (1 - self.share) / n + z * z / (4 * n * n))
        # At the ends the formula gives the share itself, but for the last digit.
        return max(0.0, min(self.share, middle - half)), min(1.0, max(self.share, middle + half))

    def as_dict(self) -> dict[str, Any]:
        low, high = self.interval
        return {
            **{"answered": self.answered, "right": self.right, "share": self.share, "interval_95": [low, high]},
            "misses": {reason.value: count for reason, count in self.misses.most_common()},
            **{"cut_off": self.cut_off, "calls_refused": self.refused, "tokens": self.tokens},
        }


@dataclass(frozen=True, slots=True)
class Scored:
    """One run: how it was asked, and the tally of each category."""

    is_constrained: bool
    tallies: Mapping[Category, Tally]

    @property
    def name(self) -> str:
        return MANNERS[self.is_constrained]

    @property
    def together(self) -> Tally:
        return added(self.tallies.values())


def scored(tasks: Sequence[Task], answers: Mapping[str, Answer], *, is_constrained: bool) -> Scored:
    """The tasks that have an answer, scored."""
    tallies: dict[Category, Tally] = {}
    for task in tasks:
        tally = tallies.setdefault(task.category, Tally())
        answer = answers.get(task.id)
        if answer is not None:
            tally.add(answer, _miss(task, answer))
    return Scored(is_constrained, tallies)


def _miss(task: Task, answer: Answer) -> Miss | None:
    return Miss(Reason.REFUSED, answer.error) if answer.error else miss_of(task.key, answer.tool_calls)


def added(tallies: Iterable[Tally]) -> Tally:
    whole = Tally()
    for tally in tallies:
        whole.misses.update(tally.misses)
        for name in ("answered", "right", "cut_off", "refused", "tokens"):
            setattr(whole, name, getattr(whole, name) + getattr(tally, name))
    return whole
