"""Our BFCL scorer agrees with the official one, on possible answers unchanged and with changes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ferrule.bench.bfcl.categories import Category
from ferrule.bench.bfcl.tasks import load_category
from ferrule.bench.bfcl_requests import data_folder
from lab.bfcl.agreement import SCORED, Agreement, compare_scorers, official
from lab.bfcl.damage import CALL_LIST_CHANGES, VALUE_CHANGES
from lab.bfcl.outputs import outputs_of
from lab.workers import Worker

pytestmark = pytest.mark.oracle
# Every question is asked by `scripts/long bfcl-scorer`.
QUESTIONS = 16


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with official() as running:
        yield running


def agreement(category: Category, worker: Worker, *, is_underscored: bool = False) -> Agreement:
    tasks = load_category(category, data_folder(), is_underscored=is_underscored)
    return compare_scorers(tasks[:QUESTIONS], worker)


@pytest.mark.parametrize("category", SCORED, ids=lambda one: one.name)
def test_both_scorers_call_the_same_outputs_right(category: Category, worker: Worker) -> None:
    result = agreement(category, worker)
    assert not result.disagreed, "\n".join(result.disagreed[:5])
    assert result.outputs >= 300
    assert min(result.right, result.wrong) >= 50


@pytest.mark.parametrize("category", SCORED, ids=lambda one: one.name)
def test_they_agree_where_names_were_offered_with_underscores(category: Category, worker: Worker) -> None:
    result = agreement(category, worker, is_underscored=True)
    assert not result.disagreed, "\n".join(result.disagreed[:5])
    assert result.right >= 50


@pytest.mark.parametrize("category", [one for one in SCORED if "parallel" not in one.name], ids=lambda one: one.name)
def test_they_name_the_same_reason_where_the_official_one_names_any(category: Category, worker: Worker) -> None:
    result = agreement(category, worker)
    assert result.same_reason >= 100
    assert result.other_reason == 0


def test_every_change_applies_to_some_question() -> None:
    ways = {output.how for one in SCORED for task in load_category(one, data_folder()) for output in outputs_of(task)}
    assert {*VALUE_CHANGES, *CALL_LIST_CHANGES} <= ways
