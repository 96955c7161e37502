"""Load BFCL's questions and their expected answers from the official data.

The questions of a category are sorted by a hash of their ids: the order is the same on every machine, the first ones
are a random sample, and a longer run begins with the questions of a shorter one.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, cast

from ferrule.bench.bfcl.categories import Category, Scoring
from ferrule.bench.bfcl.score import AnswerKey, PossibleCall
from ferrule.bench.bfcl_requests import Question, QuestionsMissingError, question_of, read_entries

_ANSWERS: Final = "possible_answer"


@dataclass(frozen=True, slots=True)
class Task:
    """A question, its category, and the key that its answer is compared with."""

    category: Category
    question: Question
    key: AnswerKey

    @property
    def id(self) -> str:
        return self.question.id


def load_tasks(
    categories: Sequence[Category], count: int | None, data: Path, *, is_underscored: bool = False
) -> list[Task]:
    """Load `count` tasks, taken from the categories in turn until they run out; None loads all."""
    sources = {one.name: iter(load_category(one, data, is_underscored=is_underscored)) for one in categories}
    tasks: list[Task] = []
    while sources and (count is None or len(tasks) < count):
        for name, source in tuple(sources.items()):
            task = next(source, None)
            if task is None:
                del sources[name]
            elif count is None or len(tasks) < count:
                tasks.append(task)
    return tasks


def load_category(category: Category, data: Path, *, is_underscored: bool = False) -> list[Task]:
    """Load all tasks of a category, in the order in which they are asked."""
    answers = dict(_answers(category, data)) if category.scoring is Scoring.SAME_CALLS else {}
    tasks = [_task(category, entry, answers, is_underscored) for entry in read_entries(category.name, data)]
    return sorted(tasks, key=lambda task: hashlib.sha256(task.id.encode()).digest())


def _answers(category: Category, data: Path) -> Iterator[tuple[str, tuple[PossibleCall, ...]]]:
    for entry in read_entries(category.name, data, _ANSWERS):
        calls = cast("list[Mapping[str, Mapping[str, list[Any]]]]", entry["ground_truth"])
        yield entry["id"], tuple(PossibleCall(name, arguments) for call in calls for name, arguments in call.items())


def _task(
    category: Category,
    entry: Mapping[str, Any],
    answers: Mapping[str, tuple[PossibleCall, ...]],
    is_underscored: bool,
) -> Task:
    question = question_of(entry, category.name)
    if category.scoring is Scoring.SAME_CALLS and question.id not in answers:
        raise QuestionsMissingError(f"BFCL's data has no answer to {question.id}")
    key = AnswerKey(category.scoring, tuple(entry["function"]), answers.get(question.id, ()), is_underscored)
    tools = tuple(replace(tool, name=key.offered_name(tool.name)) for tool in question.tools)
    return Task(category, replace(question, tools=tools), key)
