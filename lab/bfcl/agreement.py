"""Compare our BFCL scorer with the official one on the same outputs; `scorer_table` shows the results.

Every question with possible answers gives many outputs, correct and changed (`outputs`); both scorers judge each. They
agree if both call it correct or both wrong. On some outputs the official scorer fails with an error: those are counted
separately, and our scorer must call them wrong.
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
from ferrule.bench.bfcl.tasks import Task, load_category
from ferrule.bench.bfcl_requests import data_folder
from ferrule.core.call import ToolCall
from lab.bfcl.official import SOURCES
from lab.bfcl.outputs import Output, outputs_of
from lab.paths import CACHE
from lab.workers import Worker, WorkerLost

_HINT: Final = "run scripts/setup-oracles --bfcl"
SCORED: Final = tuple(one for one in CATEGORIES.values() if one.scoring is Scoring.SAME_CALLS)

# The official scorer's error types for one call. For several calls it only reports that one has no match.
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
    """How many outputs the two scorers judged, and how."""

    questions: int = 0
    right: int = 0
    wrong: int = 0
    stopped: int = 0
    """The official scorer failed with an error."""
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
            reason = REASONS.get(theirs["error_type"])
            if reason is not None:
                self.same_reason += reason is ours.reason
                self.other_reason += reason is not ours.reason


def official() -> Worker:
    """BFCL's own scorer, in a separate process."""
    if not SOURCES.is_dir():
        raise WorkerLost("BFCL's scorer is not installed", hint=_HINT)
    return Worker(CACHE / "venvs" / "oracles" / "bin" / "python", "lab.bfcl.official", hint=_HINT)


def compare_scorers(
    tasks: Iterable[Task],
    worker: Worker,
    advance: Callable[[], None] = lambda: None,
    outputs: Callable[[Task], Iterable[Output]] = outputs_of,
) -> Agreement:
    agreement = Agreement()
    for task in tasks:
        agreement.questions += 1
        for output in outputs(task):
            ours = miss_of(task.key, [ToolCall.of(name, arguments) for name, arguments in output.calls])
            agreement.add(task, output, ours, worker.ask(_request(task, output)))
        advance()
    return agreement


def _request(task: Task, output: Output) -> dict[str, Any]:
    return {
        "documents": list(task.key.documents),
        "output": [{name: arguments} for name, arguments in output.calls],
        "answers": [{one.name: one.arguments} for one in task.key.expected],
        "category": task.category.name,
        "is_underscored": task.key.is_underscored,
    }


def compare_answers(folder: Path, category: Category, worker: Worker) -> Agreement:
    """Compare the scorers on a model's answers: a folder that `ferrule bench bfcl` wrote for one run."""
    answers = answers_in(folder / f"{category.name}.jsonl")
    is_underscored = settings_in(folder).get("names") == NAMES[True]
    tasks = [task for task in load_questions(category, is_underscored) if task.id in answers]
    return compare_scorers(tasks, worker, outputs=lambda task: _readable(answers[task.id]))


def _readable(answer: Answer) -> Iterator[Output]:
    """The answer, unless its arguments are not objects: those never reach the official scorer."""
    try:
        yield Output("answered by a model", tuple((call.name, call.arguments) for call in answer.tool_calls))
    except ValueError:
        return


def load_questions(category: Category, is_underscored: bool) -> list[Task]:
    return load_category(category, data_folder(), is_underscored=is_underscored)
