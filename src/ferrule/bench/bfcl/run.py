"""Run the benchmark: ask the questions that have no answer yet, score everything, write JSON, Markdown and a chart.

Shared by `ferrule bench bfcl` and `scripts/long bfcl`. Does not write to the terminal.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ferrule.bench.bfcl.answers import Answer, AnswerFolder
from ferrule.bench.bfcl.chart import Bar, Group, render_chart
from ferrule.bench.bfcl.client import RunOptions, ask_all
from ferrule.bench.bfcl.report import as_json, page
from ferrule.bench.bfcl.score import NAMES
from ferrule.bench.bfcl.summary import RunScore, score_run
from ferrule.bench.bfcl.tasks import Task
from ferrule.bench.bfcl_requests import RELEASE
from ferrule.engines.engine import Engine
from ferrule.errors import FerruleError

CHART: Final = "bfcl.svg"


class UnfinishedRunError(FerruleError):
    """Some questions have no answer yet."""

    code = "bench_unfinished"
    retryable = True


@dataclass(frozen=True, slots=True)
class RunPlan:
    """The questions, how to ask them, and the engine's label in results (without keys and local folders)."""

    tasks: Sequence[Task]
    options: RunOptions
    engine_name: str
    is_underscored: bool = False

    @property
    def settings(self) -> dict[str, Any]:
        return {
            "questions": RELEASE,
            "engine": self.engine_name,
            "asked": self.options.name,
            "max_tokens": self.options.max_tokens,
            "temperature": 0,
            "names": NAMES[self.is_underscored],
        }


async def run(engine: Engine, plan: RunPlan, out: Path, advance: Callable[[str], None]) -> RunScore:
    """Answer and score all tasks. Questions with a stored answer are not asked again.

    Raises `UnfinishedRunError` if the engine failed on some with a retryable error. The other answers are stored;
    running again resumes.
    """
    folder = AnswerFolder(out / plan.options.name, plan.settings)
    answers = _answers(folder, plan.tasks)
    pending = [task for task in plan.tasks if task.id not in answers]
    for task in plan.tasks:
        if task.id in answers:
            advance(task.category.name)

    def save(task: Task, answer: Answer) -> None:
        folder.save(task.category.name, answer)
        answers[task.id] = answer
        advance(task.category.name)

    failure = await ask_all(engine, pending, plan.options, save)
    if failure is not None:
        missing = sum(task.id not in answers for task in plan.tasks)
        raise UnfinishedRunError(
            f"{missing} of {len(plan.tasks)} questions have no answer; the last failure: {failure.message}",
            hint="The answers so far are saved: run the same command again to resume.",
        ) from failure
    return score_run(plan.tasks, answers, is_constrained=plan.options.is_constrained)


def load_previous(plan: RunPlan, out: Path) -> RunScore | None:
    """The score of an earlier run of the same plan; None if it did not answer every question."""
    folder = out / plan.options.name
    if not AnswerFolder.has_settings(folder, plan.settings):
        return None
    answers = _answers(AnswerFolder(folder, plan.settings), plan.tasks)
    if any(task.id not in answers for task in plan.tasks):
        return None
    return score_run(plan.tasks, answers, is_constrained=plan.options.is_constrained)


def _answers(folder: AnswerFolder, tasks: Sequence[Task]) -> dict[str, Answer]:
    answers: dict[str, Answer] = {}
    for category in dict.fromkeys(task.category.name for task in tasks):
        answers.update(folder.load(category))
    return answers


def write(out: Path, runs: Sequence[RunScore], plan: RunPlan) -> None:
    """Write `results.json`, `results.md` and the chart."""
    settings = {run.name: {**plan.settings, "asked": run.name} for run in runs}
    (out / "results.json").write_text(json.dumps(as_json(runs, settings), indent=2) + "\n", encoding="utf-8")
    (out / "results.md").write_text(page(runs, plan.engine_name, CHART), encoding="utf-8")
    (out / CHART).write_text(chart(runs, plan.engine_name), encoding="utf-8")


def chart(runs: Sequence[RunScore], engine_name: str) -> str:
    categories = dict.fromkeys(category for run in runs for category in run.scores)
    groups = [Group(one.name, tuple(_bar(run, one.name) for run in runs)) for one in categories]
    return render_chart("BFCL v4, share of correct replies", engine_name, [run.name for run in runs], groups)


def _bar(run: RunScore, name: str) -> Bar:
    score = next((score for category, score in run.scores.items() if category.name == name), None)
    if score is None or not score.answered:
        return Bar(None)
    return Bar(score.share, *score.interval, label=f"{score.right}/{score.answered}")
