"""A run from questions to results: asks what is not answered yet, scores everything, writes JSON, Markdown and a chart.

Shared by `ferrule bench bfcl` and `scripts/long bfcl`. Must not know a terminal.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ferrule.bench.bfcl.answers import Answer, AnswerFolder
from ferrule.bench.bfcl.chart import Bar, Group, svg
from ferrule.bench.bfcl.client import Manner, ask
from ferrule.bench.bfcl.report import as_json, page
from ferrule.bench.bfcl.score import NAMES
from ferrule.bench.bfcl.summary import Scored, scored
from ferrule.bench.bfcl.tasks import Task
from ferrule.bench.bfcl_requests import RELEASE
from ferrule.engines.engine import Engine
from ferrule.errors import FerruleError

CHART: Final = "bfcl.svg"


class Unfinished(FerruleError):
    """Some questions have no answer yet."""

    code = "bench_unfinished"
    retryable = True


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of whom, and how. `who` names the engine in results, without keys and without folders."""

    tasks: Sequence[Task]
    manner: Manner
    who: str
    is_underscored: bool = False

    @property
    def settings(self) -> dict[str, Any]:
        return {
            "questions": RELEASE,
            "engine": self.who,
            "asked": self.manner.name,
            "max_tokens": self.manner.max_tokens,
            "temperature": 0,
            "names": NAMES[self.is_underscored],
        }


async def run(engine: Engine, asked: Asked, out: Path, advance: Callable[[str], None]) -> Scored:
    """Answers and scores all of the tasks. What was answered before is not asked again.

    `Unfinished` where the engine failed on some in a way that may pass: the others are kept, running again goes on.
    """
    folder = AnswerFolder(out / asked.manner.name, asked.settings)
    answers = _answers(folder, asked.tasks)
    waiting = [task for task in asked.tasks if task.id not in answers]
    for task in asked.tasks:
        if task.id in answers:
            advance(task.category.name)

    def keep(task: Task, answer: Answer) -> None:
        folder.keep(task.category.name, answer)
        answers[task.id] = answer
        advance(task.category.name)

    failure = await ask(engine, waiting, asked.manner, keep)
    if failure is not None:
        left = sum(task.id not in answers for task in asked.tasks)
        raise Unfinished(
            f"{left} of {len(asked.tasks)} questions have no answer; the last failure: {failure.message}",
            hint="The answers so far are kept: run the same again to go on.",
        ) from failure
    return scored(asked.tasks, answers, is_constrained=asked.manner.is_constrained)


def kept(asked: Asked, out: Path) -> Scored | None:
    """The same questions as they were answered before in that manner; None where one of them was not."""
    folder = out / asked.manner.name
    if not AnswerFolder.holds(folder, asked.settings):
        return None
    answers = _answers(AnswerFolder(folder, asked.settings), asked.tasks)
    if any(task.id not in answers for task in asked.tasks):
        return None
    return scored(asked.tasks, answers, is_constrained=asked.manner.is_constrained)


def _answers(folder: AnswerFolder, tasks: Sequence[Task]) -> dict[str, Answer]:
    answers: dict[str, Answer] = {}
    for category in dict.fromkeys(task.category.name for task in tasks):
        answers.update(folder.answered(category))
    return answers


def write(out: Path, runs: Sequence[Scored], asked: Asked) -> None:
    """`results.json`, `results.md` and the chart."""
    settings = {run.name: {**asked.settings, "asked": run.name} for run in runs}
    (out / "results.json").write_text(json.dumps(as_json(runs, settings), indent=2) + "\n", encoding="utf-8")
    (out / "results.md").write_text(page(runs, asked.who, CHART), encoding="utf-8")
    (out / CHART).write_text(chart(runs, asked.who), encoding="utf-8")


def chart(runs: Sequence[Scored], who: str) -> str:
    categories = dict.fromkeys(category for run in runs for category in run.tallies)
    groups = [Group(one.name, tuple(_bar(run, one.name) for run in runs)) for one in categories]
    return svg("BFCL v4, share of right replies", who, [run.name for run in runs], groups)


def _bar(run: Scored, name: str) -> Bar:
    tally = next((tally for category, tally in run.tallies.items() if category.name == name), None)
    if tally is None or not tally.answered:
        return Bar(None)
    return Bar(tally.share, *tally.interval, words=f"{tally.right}/{tally.answered}")
