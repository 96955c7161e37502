"""Skipping stays on while it saves time, and is tried again after a pause."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ferrule.engines.text.skip_guard import AnswerTime, HoleTime, SkipGuard

TOKEN = 0.02


def answer(*, requests: int, overhead: float, tokens: int = 4, skipped: int = 30) -> AnswerTime:
    holes = [HoleTime(overhead, TOKEN * (tokens - 1), tokens) for _ in range(requests)]
    return AnswerTime(skipped, holes)


@given(st.integers(1, 8), st.integers(2, 10), st.integers(0, 80))
def test_the_time_without_skipping_is_the_first_wait_and_all_tokens(requests: int, tokens: int, skipped: int) -> None:
    without_skip = answer(requests=requests, overhead=0.1, tokens=tokens, skipped=skipped).without_skip
    assert without_skip is not None
    assert abs(without_skip - (0.1 + TOKEN * (requests * tokens + skipped - 1))) < 1e-9


def test_an_answer_of_single_tokens_has_no_estimate() -> None:
    assert answer(requests=3, overhead=0.1, tokens=1).without_skip is None


def test_skipping_stays_on_while_requests_are_cheap() -> None:
    guard = SkipGuard()
    for _ in range(100):
        assert guard.allows()
        guard.add(answer(requests=3, overhead=TOKEN))
    assert guard.speedup > 2


def test_skipping_stops_if_requests_cost_more_than_they_save_and_is_tried_again() -> None:
    guard = SkipGuard()
    allowed = 0
    for _ in range(300):
        if guard.allows():
            allowed += 1
            guard.add(answer(requests=3, overhead=40 * TOKEN))
    assert 8 <= allowed <= 8 * 5


def test_one_slow_answer_does_not_stop_skipping() -> None:
    guard = SkipGuard()
    for number in range(40):
        assert guard.allows()
        guard.add(answer(requests=3, overhead=40 * TOKEN if number % 16 == 15 else TOKEN))
