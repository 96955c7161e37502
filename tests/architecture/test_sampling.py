"""A sample has every row, the same ones for the same seed, and every pair comes up over time. A file of which no test
is selected is not imported.
"""

from __future__ import annotations

import itertools

import pytest

from sampling import VARIABLE, WHOLE, sampled, seed
from selection import may_have_selected_tests

ROWS = [f"row {number}" for number in range(60)]
COLUMNS: tuple[str, ...] = ("auto", "required", "one", "none")


def sample(word: str, each: int = 1, label: str = "law") -> list[tuple[str, str]]:
    return sampled(label, ROWS, COLUMNS, each, seed_of_run=word)


@pytest.mark.parametrize("each", [1, 2])
def test_every_row_is_in_every_sample_as_often_as_asked(each: int) -> None:
    pairs = sample("a", each)
    assert [row for row, _ in pairs] == [row for row in ROWS for _ in range(each)]
    assert len(set(pairs)) == len(pairs)


def test_the_same_seed_takes_the_same_sample_and_another_takes_another() -> None:
    assert sample("a") == sample("a")
    assert sample("a") != sample("b")
    assert sample("a") != sample("a", label="another law")


def test_all_pairs_come_up_over_time_and_none_much_more_often() -> None:
    counts = dict.fromkeys(itertools.product(ROWS, COLUMNS), 0)
    for number in range(100):
        for pair in sample(f"commit {number}"):
            counts[pair] += 1
    assert min(counts.values()) > 5
    assert max(counts.values()) < 60


def test_the_whole_product_is_taken_on_request() -> None:
    assert sample(WHOLE) == list(itertools.product(ROWS, COLUMNS))


def test_the_seed_comes_from_the_environment_and_is_left_there_for_other_processes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(VARIABLE, "mine")
    assert seed() == "mine"
    monkeypatch.delenv(VARIABLE)
    assert seed() == seed() != "mine"


UNIT = "not live and not oracle and not long"
SLOW = "(oracle or live) and not long"
LIVE_MODULE = "pytestmark = pytest.mark.live\n"
LONG_MODULE = "pytestmark = [pytest.mark.live, pytest.mark.long]\n"
ONE_ORACLE = "@pytest.mark.oracle\ndef test_it() -> None: ...\n"
ONE_LONG_PARAMETER = f"{LIVE_MODULE}MANY = [6, pytest.param(48, marks=pytest.mark.long)]\n"


@pytest.mark.parametrize(
    "text, unit, slow, long",
    [
        ("def test_it() -> None: ...\n", True, False, False),
        (LIVE_MODULE, False, True, False),
        (LONG_MODULE, False, False, True),
        (ONE_ORACLE, True, True, False),
        (ONE_LONG_PARAMETER, False, True, True),
    ],
)
def test_a_file_is_collected_if_a_test_of_it_can_be_selected(text: str, unit: bool, slow: bool, long: bool) -> None:
    assert [may_have_selected_tests(text, expression) for expression in (UNIT, SLOW, "long")] == [unit, slow, long]
    assert may_have_selected_tests(text, "another_marker")
