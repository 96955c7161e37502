from __future__ import annotations

from pathlib import Path

import pytest

from architecture.source_tree import ROOT
from bench.bfcl_data import CITIES, write_data
from ferrule import ChoiceMode
from ferrule.bench.bfcl.categories import CATEGORIES, select_categories
from ferrule.bench.bfcl.tasks import load_tasks
from ferrule.bench.bfcl_requests import RELEASE, QuestionsMissingError, data_folder

NAMES = ("simple_python", "parallel", "irrelevance", "live_relevance")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data(tmp_path_factory.mktemp("bfcl"))


@pytest.mark.parametrize("count", range(1, 4 * len(CITIES)))
def test_a_longer_run_begins_with_the_questions_of_a_shorter_one(data: Path, count: int) -> None:
    every = [task.id for task in load_tasks(select_categories(NAMES), None, data)]
    assert len(every) == len(set(every)) == 4 * len(CITIES)
    assert [task.id for task in load_tasks(select_categories(NAMES), count, data)] == every[:count]


def test_categories_take_turns(data: Path) -> None:
    assert [task.category.name for task in load_tasks(select_categories(NAMES), 8, data)] == [*NAMES, *NAMES]


def test_a_question_comes_with_its_own_answers(data: Path) -> None:
    for task in load_tasks(select_categories(["simple_python", "parallel"]), None, data):
        city = CITIES[int(task.id.rpartition("_")[2])]
        assert {call.arguments["city"][0] for call in task.key.expected} == {city}
        assert city in task.question.messages[0].content


def test_names_are_offered_with_underscores_where_that_is_asked_for(data: Path) -> None:
    (dotted,) = load_tasks(select_categories(NAMES), 1, data)
    (underscored,) = load_tasks(select_categories(NAMES), 1, data, is_underscored=True)
    assert [one.question.tools[0].name for one in (dotted, underscored)] == ["weather.get", "weather_get"]


def test_a_call_is_demanded_only_under_the_rule_and_where_the_answer_is_one() -> None:
    demanded = {one.name for one in CATEGORIES.values() if one.choice(is_constrained=True).mode is ChoiceMode.REQUIRED}
    assert set(CATEGORIES) - demanded == {"irrelevance", "live_irrelevance", "live_relevance"}
    assert all(one.choice(is_constrained=False).mode is ChoiceMode.AUTO for one in CATEGORIES.values())


def test_questions_that_are_not_there_are_answered_with_how_to_get_them(tmp_path: Path) -> None:
    with pytest.raises(QuestionsMissingError) as refusal:
        load_tasks(select_categories(NAMES), 1, tmp_path)
    assert f"pip download --no-deps {RELEASE}" in refusal.value.hint


def test_a_question_without_an_answer_is_refused(tmp_path: Path) -> None:
    data = write_data(tmp_path)
    (data / "possible_answer" / "BFCL_v4_parallel.json").write_text("")
    with pytest.raises(QuestionsMissingError, match="no answer to parallel_"):
        load_tasks(select_categories(["parallel"]), 1, data)


def test_the_folder_that_the_wheel_was_unpacked_to_does_too(tmp_path: Path) -> None:
    inside = tmp_path / "bfcl_eval" / "data"
    assert data_folder(tmp_path) == tmp_path
    inside.mkdir(parents=True)
    assert data_folder(tmp_path) == data_folder(inside) == inside


def test_the_release_is_the_one_that_the_setup_fetches_and_the_page_names() -> None:
    assert f"bfcl_eval={RELEASE}\n" in (ROOT / "scripts" / "setup-oracles").read_text(encoding="utf-8")
    page = (ROOT / "docs" / "how-to" / "benchmark.md").read_text(encoding="utf-8")
    assert f"pip download --no-deps {RELEASE}\n" in page
