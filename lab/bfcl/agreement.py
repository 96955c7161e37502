"""Our scorer beside BFCL's own, on the same outputs; `scorer_table` shows what came of it.

Every question that has possible answers gives many outputs, right and spoiled (`outputs`); both scorers judge each.
They agree where both call it right, or both wrong. On some outputs the official scorer stops with an error of its own
and judges nothing: those are counted apart, and ours must call them wrong.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ferrule.bench.bfcl.answers import Answer, answers_in, settings_in
from ferrule.bench.bfcl.categories import CATEGORIES, Category, Scoring
from ferrule.bench.bfcl.miss import Miss, Reason
from ferrule.bench.bfcl.score import NAMES, miss_of
from ferrule.bench.bfcl.tasks import Task, of_category
from ferrule.bench.bfcl_requests import data_folder
from ferrule.core.call import ToolCall
from lab.bfcl.official import SOURCES
from lab.bfcl.outputs import Output, outputs_of
from lab.paths import CACHE
from lab.workers import Worker, WorkerLost

_HINT: Final = "run scripts/setup-oracles --bfcl"
SCORED: Final = tuple(one for one in CATEGORIES.values() if one.scoring is Scoring.SAME_CALLS)

# What the official scorer calls the error of one call; of several calls it tells only that one has no match.
REASONS: Final[Mapping[str, Reason]] = {
    "simple_function_checker:wrong_func_name": Reason.FUNCTION,
    "simple_function_checker:missing_required": Reason.MISSING,
    "simple_function_checker:missing_optional": Reason.MISSING,
    "simple_function_checker:unexpected_param": Reason.UNEXPECTED,
    "type_error:simple": Reason.TYPE,
    "type_error:nested": Reason.TYPE,
    "value_error:string": Reason.VALUE,
    "value_error:list/tuple": Reason.VALUE,
    "value_error:dict_key": Reason.VALUE,
    "value_error:dict_value": Reason.VALUE,
    "value_error:list_dict_count": Reason.VALUE,
    "value_error:others": Reason.VALUE,
    "dict_checker:unclear": Reason.VALUE,
    "list_dict_checker:unclear": Reason.VALUE,
}


@dataclass(slots=True)
class Agreement:
    """Outputs and what the two scorers made of them."""

    questions: int = 0
    right: int = 0
    wrong: int = 0
    stopped: int = 0
    """The official scorer stopped with an error."""
    same_reason: int = 0
    other_reason: int = 0
    ways: Counter[str] = field(default_factory=Counter[str])
    disagreed: list[str] = field(default_factory=list[str])

    @property
    def outputs(self) -> int:
        return self.right + self.wrong + self.stopped + len(self.disagreed)

    def add(self, task: Task, output: Output, ours: Miss | None, theirs: Mapping[str, Any]) -> None:
        self.ways[output.how] += 1
        is_valid = bool(not theirs["error"] and theirs["is_valid"])
        if is_valid != (ours is None):
            self.disagreed.append(f"{task.id}, {output.how}: ours {ours}, theirs {theirs}, output {output.calls}")
        elif theirs["error"]:
            self.stopped += 1
        elif ours is None:
            self.right += 1
        else:
            self.wrong += 1
            told = REASONS.get(theirs["error_type"])
            if told is not None:
                self.same_reason += told is ours.reason
                self.other_reason += told is not ours.reason


def official() -> Worker:
    """BFCL's own scorer, in a process of its own."""
    if not SOURCES.is_dir():
        raise WorkerLost("BFCL's scorer is not there", hint=_HINT)
    return Worker(CACHE / "venvs" / "oracles" / "bin" / "python", "lab.bfcl.official", hint=_HINT)


def compared(
    tasks: Iterable[Task],
    worker: Worker,
    advance: Callable[[], None] = lambda: None,
    outputs: Callable[[Task], Iterable[Output]] = outputs_of,
) -> Agreement:
    found = Agreement()
    for task in tasks:
        found.questions += 1
        for output in outputs(task):
            ours = miss_of(task.key, [ToolCall.of(name, arguments) for name, arguments in output.calls])
            found.add(task, output, ours, worker.ask(_asked(task, output)))
        advance()
    return found


def _asked(task: Task, output: Output) -> dict[str, Any]:
    return {
        "documents": list(task.key.documents),
        "output": [{name: arguments} for name, arguments in output.calls],
        "answers": [{one.name: one.arguments} for one in task.key.expected],
        "category": task.category.name,
        "is_underscored": task.key.is_underscored,
    }


def answered(folder: Path, category: Category, worker: Worker) -> Agreement:
    """The two scorers on what a model answered: a folder that `ferrule bench bfcl` made for one manner."""
    answers = answers_in(folder / f"{category.name}.jsonl")
    is_underscored = settings_in(folder).get("names") == NAMES[True]
    asked = [task for task in questions(category, is_underscored) if task.id in answers]
    return compared(asked, worker, outputs=lambda task: _readable(answers[task.id]))


def _readable(answer: Answer) -> Iterator[Output]:
    """The answer, unless its arguments are no objects: those never reach the official scorer."""
    try:
        yield Output("answered by a model", tuple((call.name, call.arguments) for call in answer.tool_calls))
    except ValueError:
        return


def questions(category: Category, is_underscored: bool) -> list[Task]:
    return of_category(category, data_folder(), is_underscored=is_underscored)
