"""Score answers and count the results by category. No IO."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ferrule.bench.bfcl.answers import Answer
from ferrule.bench.bfcl.categories import MODE_NAMES, Category
from ferrule.bench.bfcl.miss import Miss, Reason
from ferrule.bench.bfcl.score import miss_of
from ferrule.bench.bfcl.tasks import Task

_NORMAL_95: Final = 1.959964


@dataclass(slots=True)
class CategoryScore:
    """The counts for one category. `refused` counts calls that the model wrote and Ferrule refused."""

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
        """The 95% Wilson score interval of the share."""
        if not self.answered:
            return 0.0, 1.0
        n, z = self.answered, _NORMAL_95
        middle = (self.share + z * z / (2 * n)) / (1 + z * z / n)
        half = z / (1 + z * z / n) * math.sqrt(self.share * (1 - self.share) / n + z * z / (4 * n * n))
        # At 0 and 1 rounding errors could put the bound on the wrong side of the share.
        return max(0.0, min(self.share, middle - half)), min(1.0, max(self.share, middle + half))

    def as_dict(self) -> dict[str, Any]:
        low, high = self.interval
        return {
            **{"answered": self.answered, "right": self.right, "share": self.share, "interval_95": [low, high]},
            "misses": {reason.value: count for reason, count in self.misses.most_common()},
            **{"cut_off": self.cut_off, "calls_refused": self.refused, "tokens": self.tokens},
        }


@dataclass(frozen=True, slots=True)
class RunScore:
    """One run: constrained or not, and the score of each category."""

    is_constrained: bool
    scores: Mapping[Category, CategoryScore]

    @property
    def name(self) -> str:
        return MODE_NAMES[self.is_constrained]

    @property
    def total(self) -> CategoryScore:
        return sum_scores(self.scores.values())


def score_run(tasks: Sequence[Task], answers: Mapping[str, Answer], *, is_constrained: bool) -> RunScore:
    """Score the tasks that have an answer."""
    scores: dict[Category, CategoryScore] = {}
    for task in tasks:
        score = scores.setdefault(task.category, CategoryScore())
        answer = answers.get(task.id)
        if answer is not None:
            score.add(answer, _miss(task, answer))
    return RunScore(is_constrained, scores)


def _miss(task: Task, answer: Answer) -> Miss | None:
    return Miss(Reason.REFUSED, answer.error) if answer.error else miss_of(task.key, answer.tool_calls)


def sum_scores(scores: Iterable[CategoryScore]) -> CategoryScore:
    total = CategoryScore()
    for score in scores:
        total.misses.update(score.misses)
        for name in ("answered", "right", "cut_off", "refused", "tokens"):
            setattr(total, name, getattr(total, name) + getattr(score, name))
    return total
