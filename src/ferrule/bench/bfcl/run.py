"""Run the benchmark: ask the questions that have no answer yet, score everything, write JSON, Markdown and a chart.

Shared by `ferrule bench bfcl` and `scripts/long bfcl`. Does not write to the terminal.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, Final

from ferrule.bench.bfcl.answers import Answer, AnswerFolder
from ferrule.bench.bfcl.client import RunOptions, ask_all
from ferrule.bench.bfcl.report import as_json, page
from ferrule.bench.bfcl.score import NAMES
from ferrule.bench.bfcl.summary import RunScore, score_run
from ferrule.bench.bfcl.tasks import Task
from ferrule.bench.bfcl_requests import RELEASE
from ferrule.engines.engine import Engine
from ferrule.errors import FerruleError

_LEFT, _WIDTH, _RIGHT, _TOP, _BOTTOM = 190, 420, 90, 76, 30
_BAR, _GAP = 13, 12
# Mid tones that colour-blind readers can distinguish too, on white and on near-black.
_COLOURS: Final = ("#3b82c4", "#d98324", "#5a9e6f", "#a65fa0")
_STYLE: Final = """
text { font: 12px system-ui, sans-serif; fill: #24292f; }
.title { font-size: 14px; font-weight: 600; }
.faint { fill: #57606a; }
.grid { stroke: #d0d7de; stroke-width: 1; }
.range { stroke: #24292f; stroke-width: 1; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; }
  .faint { fill: #9198a1; }
  .grid { stroke: #3d444d; }
  .range { stroke: #e6edf3; }
}
"""


@dataclass(frozen=True, slots=True)
class Bar:
    """A share between 0 and 1, its confidence interval, and the label at its end. With share None nothing is drawn."""

    share: float | None
    low: float = 0.0
    high: float = 0.0
    label: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """Bars with a common name, one per series."""

    name: str
    bars: tuple[Bar, ...]


def render_chart(title: str, about: str, series: Sequence[str], groups: Sequence[Group]) -> str:
    """Return the chart as SVG, with the line `about` under the title. Every group has one bar per series."""
    each = len(series) * _BAR + _GAP
    height = _TOP + len(groups) * each + _BOTTOM
    width = _LEFT + _WIDTH + _RIGHT
    end = height - _BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{escape(f"{title}: {about}")}">',
        f"<style>{_STYLE}</style>",
        f'<text class="title" x="12" y="22">{escape(title)}</text>',
        f'<text class="faint" x="12" y="40">{escape(about)}</text>',
        *_legend(series),
        *_grid(end),
    ]
    for number, group in enumerate(groups):
        parts += _group(group, _TOP + number * each + _GAP / 2, len(series))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _legend(series: Sequence[str]) -> list[str]:
    parts: list[str] = []
    for number, name in enumerate(series):
        x = _LEFT + number * 150
        parts.append(f'<rect x="{x}" y="52" width="10" height="10" rx="2" fill="{_COLOURS[number % len(_COLOURS)]}"/>')
        parts.append(f'<text x="{x + 15}" y="61">{escape(name)}</text>')
    return parts


def _grid(end: float) -> list[str]:
    parts: list[str] = []
    for percent in (0, 25, 50, 75, 100):
        x = _x(percent / 100)
        parts.append(f'<line class="grid" x1="{x}" y1="{_TOP}" x2="{x}" y2="{end}"/>')
        parts.append(f'<text class="faint" x="{x}" y="{end + 18}" text-anchor="middle">{percent}%</text>')
    return parts


def _group(group: Group, top: float, width: int) -> list[str]:
    middle = top + width * _BAR / 2 + 4
    parts = [f'<text x="{_LEFT - 8}" y="{middle:.1f}" text-anchor="end">{escape(group.name)}</text>']
    for number, bar in enumerate(group.bars):
        if bar.share is not None:
            parts += _chart_bar(bar, bar.share, top + number * _BAR, _COLOURS[number % len(_COLOURS)])
    return parts


def _chart_bar(bar: Bar, share: float, y: float, colour: str) -> list[str]:
    line, length = y + _BAR / 2, _x(share) - _LEFT
    end = max(_x(share), _x(bar.high)) + 5
    return [
        f'<rect x="{_LEFT}" y="{y + 1:.1f}" width="{length:.1f}" height="{_BAR - 2}" rx="2" fill="{colour}"/>',
        f'<line class="range" x1="{_x(bar.low)}" y1="{line:.1f}" x2="{_x(bar.high)}" y2="{line:.1f}"/>',
        f'<text class="faint" x="{end:.1f}" y="{line + 4:.1f}">{escape(bar.label)}</text>',
    ]


def _x(share: float) -> float:
    return round(_LEFT + share * _WIDTH, 1)


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
