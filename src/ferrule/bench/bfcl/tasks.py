"""BFCL's questions with what their answers are compared with, read from the official data.

Questions of a category come in an order of their own, the same on every machine: sorted by a hash of their ids. So the
first of them are a sample, and a longer run begins with the questions of a shorter one.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, cast

from ferrule.bench.bfcl.categories import Category, Scoring
from ferrule.bench.bfcl.score import Key, PossibleCall
from ferrule.bench.bfcl_requests import Question, QuestionsMissing, entries, question_of

_ANSWERS: Final = "possible_answer"


@dataclass(frozen=True, slots=True)
class Task:
    """A question, its category, and what its answer is compared with."""

    category: Category
    question: Question
    key: Key

    @property
    def id(self) -> str:
        return self.question.id


def tasks(categories: Sequence[Category], count: int | None, data: Path, *, is_underscored: bool = False) -> list[Task]:
    """As many tasks as asked for, taken in turn from each category until one after the other runs out; None is all."""
    sources = {one.name: iter(of_category(one, data, is_underscored=is_underscored)) for one in categories}
    found: list[Task] = []
    while sources and (count is None or len(found) < count):
        for name, source in tuple(sources.items()):
            task = next(source, None)
            if task is None:
                del sources[name]
            elif count is None or len(found) < count:
                found.append(task)
    return found


def of_category(category: Category, data: Path, *, is_underscored: bool = False) -> list[Task]:
    """Every task of a category, in the order in which it is asked."""
    answers = dict(_answers(category, data)) if category.scoring is Scoring.SAME_CALLS else {}
    found = [_task(category, entry, answers, is_underscored) for entry in entries(category.name, data)]
    return sorted(found, key=lambda task: hashlib.sha256(task.id.encode()).digest())


def _answers(category: Category, data: Path) -> Iterator[tuple[str, tuple[PossibleCall, ...]]]:
    for entry in entries(category.name, data, _ANSWERS):
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
        raise QuestionsMissing(f"there is no answer to {question.id}")
    key = Key(category.scoring, tuple(entry["function"]), answers.get(question.id, ()), is_underscored)
    tools = tuple(replace(tool, name=key.offered(tool.name)) for tool in question.tools)
    return Task(category, replace(question, tools=tools), key)
