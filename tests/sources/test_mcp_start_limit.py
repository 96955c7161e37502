"""How many servers are started again in a second, by a clock that the test turns."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ferrule.sources.mcp.start_limit import StartLimit


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def permits(limit: StartLimit, clock: Clock, callers: int, delays: list[float]) -> list[float]:
    """When each of them is let through, if the event loop wakes it late by its delay."""
    waiting = [(clock.now + limit.reserve(), number) for number in range(callers)]
    given = [when for when, _ in waiting if when <= clock.now]
    waiting = [one for one in waiting if one[0] > clock.now]
    while waiting:
        waiting.sort()
        when, number = waiting.pop(0)
        clock.now = max(clock.now, when + delays[number % len(delays)])
        missing = limit.missing_seconds()
        if missing:
            waiting.append((clock.now + missing, number))
        else:
            given.append(clock.now)
    return given


@given(st.integers(1, 40), st.lists(st.floats(0, 3), min_size=1, max_size=8), st.integers(1, 12))
def test_no_second_has_more_permits_than_allowed_however_late_callers_wake(
    callers: int, delays: list[float], per_second: int
) -> None:
    clock = Clock()
    given_at = permits(StartLimit(per_second, clock), clock, callers, delays)
    assert len(given_at) == callers
    for first, beyond in zip(given_at, given_at[per_second:], strict=False):
        assert beyond - first >= 1 - 1e-6


def test_one_caller_alone_never_waits() -> None:
    clock = Clock()
    limit = StartLimit(8, clock)
    for second in range(5):
        clock.now = second * 10.0
        assert limit.reserve() == 0


def test_a_caller_that_gives_up_costs_the_others_nothing_but_its_turn() -> None:
    clock = Clock()
    limit = StartLimit(2, clock)
    assert limit.reserve() == 0
    assert limit.reserve() == 0.5
    assert limit.reserve() == 1.0
    clock.now = 1.0
    assert limit.missing_seconds() == 0
