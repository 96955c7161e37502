"""Counts, their sum over several processes, and the page for Prometheus."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from ferrule.server.observability.metrics import FAMILIES, MAX_SERIES, OTHER, Counts, SharedCounts
from ferrule.server.observability.metrics_api import render_page

VALUES = [name for name, family in FAMILIES.items() if not family.bounds]
HISTOGRAMS = [name for name, family in FAMILIES.items() if family.bounds]
word = st.sampled_from(["a", "b", 'quo"te', "line\nbreak", "back\\slash", ""])


@st.composite
def counts(draw: st.DrawFn) -> Counts:
    result = Counts()
    for name in draw(st.lists(st.sampled_from(VALUES), max_size=8)):
        result.add(name, *(draw(word) for _ in FAMILIES[name].labels), by=draw(st.integers(0, 1000)))
    for name in draw(st.lists(st.sampled_from(HISTOGRAMS), max_size=8)):
        # Multiples of 0.25, so that sums are exact in any order.
        seconds = draw(st.integers(0, 10_000)) / 4
        result.observe(name, seconds, *(draw(word) for _ in FAMILIES[name].labels))
    return result


def parse_page(counts: Counts) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    """The page, parsed by an independent parser."""
    samples: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for family in text_string_to_metric_families(render_page(counts).decode()):
        for sample in family.samples:
            samples.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = sample.value
    return samples


@given(counts())
def test_counts_survive_a_round_trip_through_json(original: Counts) -> None:
    assert Counts.from_json(original.as_json()) == original


@given(counts(), counts())
def test_merging_does_not_depend_on_the_order(one: Counts, two: Counts) -> None:
    here, there = Counts(), Counts()
    for other in (one, two):
        here.merge(other)
    for other in (two, one):
        there.merge(other)
    assert parse_page(here) == parse_page(there)


@given(counts())
def test_the_page_shows_the_counts(original: Counts) -> None:
    samples = parse_page(original)
    for name, series in original.values.items():
        family = FAMILIES[name]
        sample_name = name if family.is_gauge else f"{name}_total"
        for labels, value in series.items():
            assert samples[sample_name][tuple(sorted(zip(family.labels, labels, strict=True)))] == value
    for name, histograms in original.histograms.items():
        for labels, histogram in histograms.items():
            key = tuple(sorted(zip(FAMILIES[name].labels, labels, strict=True)))
            assert samples[f"{name}_count"][key] == sum(histogram.counts)
            assert samples[f"{name}_sum"][key] == histogram.sum


def test_histogram_buckets_include_their_upper_bound() -> None:
    original = Counts()
    for seconds in (0.01, 0.011, 59.0, 61.0):
        original.observe("ferrule_first_event_seconds", seconds, "m")
    buckets = parse_page(original)["ferrule_first_event_seconds_bucket"]
    at = {dict(labels)["le"]: value for labels, value in buckets.items()}
    assert (at["0.01"], at["0.025"], at["60.0"], at["+Inf"]) == (1, 2, 3, 4)


def test_families_without_labels_are_shown_with_zero_at_first() -> None:
    samples = parse_page(Counts())
    assert samples["ferrule_unexpected_errors_total"] == {(): 0}
    assert samples["ferrule_answers_open"] == {(): 0}


@given(st.integers(1, 3000))
def test_the_number_of_series_of_a_family_is_bounded(number: int) -> None:
    original = Counts()
    for at in range(number):
        original.add("ferrule_calls", f"tool{at}", "grammar", "complete")
    series = original.values["ferrule_calls"]
    assert len(series) <= MAX_SERIES + 1
    assert sum(series.values()) == number
    assert ((OTHER,) * 3 in series) == (number > MAX_SERIES)


@given(counts(), counts(), counts())
def test_counters_never_decrease_when_a_worker_is_replaced(mine: Counts, before: Counts, after: Counts) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        scraped, dying = SharedCounts(Path(folder), 0), SharedCounts(Path(folder), 1)
        dying.write(before)
        alive = _sum(scraped, mine)
        replacement = SharedCounts(Path(folder), 1)
        previous = replacement.previous_counts()
        previous.merge(after)
        replacement.write(previous)
        later = _sum(scraped, mine)
        for name, values in alive.values.items():
            if not FAMILIES[name].is_gauge:
                for labels, value in values.items():
                    assert later.values[name][labels] >= value
        for name, histograms in alive.histograms.items():
            for labels, histogram in histograms.items():
                assert sum(later.histograms[name][labels].counts) >= sum(histogram.counts)


def test_a_restarted_worker_does_not_inherit_gauges(tmp_path: Path) -> None:
    original = Counts()
    original.add("ferrule_answers_open", by=7)
    original.add("ferrule_repairs", "m", by=2)
    SharedCounts(tmp_path, 3).write(original)
    previous = SharedCounts(tmp_path, 3).previous_counts()
    assert "ferrule_answers_open" not in previous.values
    assert previous.values["ferrule_repairs"] == {("m",): 2}


def test_a_family_of_another_version_is_ignored() -> None:
    data = {
        "values": {"ferrule_of_tomorrow": [["a", 1]]},
        "histograms": {"ferrule_seconds_of_tomorrow": [["a", [1, 2]]]},
    }
    assert Counts.from_json(data) == Counts()


def _sum(scraped: SharedCounts, mine: Counts) -> Counts:
    total = Counts()
    total.merge(mine)
    for other in scraped.others():
        total.merge(other)
    return total
