"""Counts: plain numbers that several processes can add up, and the page that Prometheus reads."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from ferrule.server.observability.metrics import FAMILIES, MOST_SERIES, OTHER, Counts
from ferrule.server.observability.metrics_page import page
from ferrule.server.observability.metrics_shared import Shared

SUMS = [name for name, family in FAMILIES.items() if not family.bounds]
SPREADS = [name for name, family in FAMILIES.items() if family.bounds]
word = st.sampled_from(["a", "b", 'quo"te', "line\nbreak", "back\\slash", ""])


@st.composite
def counts(draw: st.DrawFn) -> Counts:
    made = Counts()
    for name in draw(st.lists(st.sampled_from(SUMS), max_size=8)):
        made.add(name, *(draw(word) for _ in FAMILIES[name].labels), by=draw(st.integers(0, 1000)))
    for name in draw(st.lists(st.sampled_from(SPREADS), max_size=8)):
        # Quarters, whose sums are exact in any order.
        seconds = draw(st.integers(0, 10_000)) / 4
        made.observe(name, seconds, *(draw(word) for _ in FAMILIES[name].labels))
    return made


def read(counts: Counts) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    """The page, by an independent reader."""
    found: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for family in text_string_to_metric_families(page(counts).decode()):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = sample.value
    return found


@given(counts())
def test_what_is_written_down_is_read_back(made: Counts) -> None:
    assert Counts.from_json(made.as_json()) == made


@given(counts(), counts())
def test_adding_up_does_not_depend_on_who_is_asked(one: Counts, two: Counts) -> None:
    here, there = Counts(), Counts()
    for other in (one, two):
        here.merge(other)
    for other in (two, one):
        there.merge(other)
    assert read(here) == read(there)


@given(counts())
def test_the_page_says_what_was_counted(made: Counts) -> None:
    shown = read(made)
    for name, held in made.sums.items():
        family = FAMILIES[name]
        spelled = name if family.is_gauge else f"{name}_total"
        for labels, value in held.items():
            assert shown[spelled][tuple(sorted(zip(family.labels, labels, strict=True)))] == value
    for name, spreads in made.spreads.items():
        for labels, spread in spreads.items():
            key = tuple(sorted(zip(FAMILIES[name].labels, labels, strict=True)))
            assert shown[f"{name}_count"][key] == sum(spread.counts)
            assert shown[f"{name}_sum"][key] == spread.sum


def test_a_histogram_counts_what_is_at_most_each_bound() -> None:
    made = Counts()
    for seconds in (0.01, 0.011, 59.0, 61.0):
        made.observe("ferrule_first_event_seconds", seconds, "m")
    buckets = read(made)["ferrule_first_event_seconds_bucket"]
    at = {dict(labels)["le"]: value for labels, value in buckets.items()}
    assert (at["0.01"], at["0.025"], at["60.0"], at["+Inf"]) == (1, 2, 3, 4)


def test_families_without_labels_are_shown_before_anything_was_counted() -> None:
    shown = read(Counts())
    assert shown["ferrule_unexpected_errors_total"] == {(): 0}
    assert shown["ferrule_answers_open"] == {(): 0}


@given(st.integers(1, 3000))
def test_no_flood_of_labels_makes_more_series_than_there_is_room_for(number: int) -> None:
    made = Counts()
    for at in range(number):
        made.add("ferrule_calls", f"tool{at}", "grammar", "complete")
    held = made.sums["ferrule_calls"]
    assert len(held) <= MOST_SERIES + 1
    assert sum(held.values()) == number
    assert ((OTHER,) * 3 in held) == (number > MOST_SERIES)


@given(counts(), counts(), counts())
def test_a_sum_over_workers_never_goes_down_when_one_dies_and_is_stood_in_for(
    mine: Counts, before: Counts, after: Counts
) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        asked, dying = Shared(Path(folder), 0), Shared(Path(folder), 1)
        dying.write(before)
        alive = _sum(asked, mine)
        stands_in = Shared(Path(folder), 1)
        held = stands_in.begun_with()
        held.merge(after)
        stands_in.write(held)
        later = _sum(asked, mine)
        for name, values in alive.sums.items():
            if not FAMILIES[name].is_gauge:
                for labels, value in values.items():
                    assert later.sums[name][labels] >= value
        for name, spreads in alive.spreads.items():
            for labels, spread in spreads.items():
                assert sum(later.spreads[name][labels].counts) >= sum(spread.counts)


def test_the_gauges_of_the_dead_are_not_taken_over(tmp_path: Path) -> None:
    made = Counts()
    made.add("ferrule_answers_open", by=7)
    made.add("ferrule_repairs", "m", by=2)
    Shared(tmp_path, 3).write(made)
    held = Shared(tmp_path, 3).begun_with()
    assert "ferrule_answers_open" not in held.sums
    assert held.sums["ferrule_repairs"] == {("m",): 2}


def test_a_family_of_another_version_is_passed_over() -> None:
    told = {"sums": {"ferrule_of_tomorrow": [["a", 1]]}, "spreads": {"ferrule_seconds_of_tomorrow": [["a", [1, 2]]]}}
    assert Counts.from_json(told) == Counts()


def _sum(asked: Shared, mine: Counts) -> Counts:
    made = Counts()
    made.merge(mine)
    for other in asked.others():
        made.merge(other)
    return made
