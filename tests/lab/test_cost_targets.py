"""The verdicts of the cost targets, which must not call a miss a success."""

import pytest

from lab.cost_targets import costs, duration, line, row, verdict


@pytest.mark.parametrize(
    "target, after, alone, expected",
    [
        (10e-3, 9e-3, 8e-3, "met"),
        (10e-3, 12e-3, 11e-3, "met by ratio"),
        (10e-3, 15e-3, 11e-3, "missed"),
        (10e-3, 11e-3, 2e-3, "missed"),
        (10e-3, 11e-3, None, "missed"),
    ],
)
def test_a_ratio_is_a_target_only_where_llguidance_leaves_no_room(
    target: float, after: float, alone: float | None, expected: str
) -> None:
    assert verdict(target, after, alone) == expected


def test_a_cost_without_llguidance_in_it_is_never_met_by_ratio() -> None:
    assert row("schema", 1e-3, 3e-3, 2e-3, 2e-3, may_use_ratio=False)[-1] == "missed"


def test_every_cost_has_a_name_of_its_own() -> None:
    names = [cost.name for cost in costs()]
    assert len(set(names)) == len(names)


def test_durations_are_in_the_unit_that_fits() -> None:
    assert [duration(seconds) for seconds in (9.5e-7, 73e-6, 1.9e-3, 1.009)] == [
        "0.95 µs",
        "73 µs",
        "1.9 ms",
        "1,009 ms",
    ]


def test_the_size_of_a_set_is_what_the_line_has_at_no_tools() -> None:
    assert line([(1, 1_700.0), (100, 110_600.0)]) == (600.0, 1_100.0)
