"""Integers between bounds, digit by digit: the real matcher accepts exactly those."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ferrule.rules.integer_ranges import integers
from ferrule.rules.lark import emit_lark
from ferrule.rules.matcher import ByteMatcher
from ferrule.rules.rule import Rule

BOUNDS = st.one_of(st.none(), st.integers(-1200, 1200), st.floats(-300, 300, allow_nan=False))


@given(BOUNDS, BOUNDS, st.booleans(), st.booleans(), st.lists(st.integers(-1300, 1300), min_size=1, max_size=20))
def test_a_number_is_admitted_exactly_if_it_lies_between_the_bounds(
    low: float | None, high: float | None, without_low: bool, without_high: bool, numbers: list[int]
) -> None:
    schema: dict[str, Any] = {}
    if low is not None:
        schema["exclusiveMinimum" if without_low else "minimum"] = low
    if high is not None:
        schema["exclusiveMaximum" if without_high else "maximum"] = high

    def fits(number: int) -> bool:
        above = low is None or number > low or (number == low and not without_low)
        return above and (high is None or number < high or (number == high and not without_high))

    node = integers(schema)
    if node is None:
        assert not schema or not any(map(fits, range(-1300, 1300)))
        return
    matcher = ByteMatcher(emit_lark(Rule(node)))
    for edge in (low, high):
        numbers += [] if edge is None else [int(edge) - 1, int(edge), int(edge) + 1]
    for number in numbers:
        assert matcher.accepts(str(number)) == fits(number), number


def test_no_number_has_a_needless_zero_or_a_bare_minus() -> None:
    node = integers({"minimum": -5, "maximum": 250})
    assert node is not None
    matcher = ByteMatcher(emit_lark(Rule(node)))
    assert not any(map(matcher.accepts, ("007", "-0", "-", "", "00", "+5")))
