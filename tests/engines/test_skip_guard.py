"""Skipping goes on as long as it pays, and is tried again after a while."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ferrule.engines.text.skip_guard import AnswerTime, HoleTime, SkipGuard

TOKEN = 0.02


def answer(*, requests: int, overhead: float, tokens: int = 4, skipped: int = 30) -> AnswerTime:
    holes = [HoleTime(overhead, TOKEN * (tokens - 1), tokens) for _ in range(requests)]
    return AnswerTime(skipped, holes)


@given(st.integers(1, 8), st.integers(2, 10), st.integers(0, 80))
def test_what_an_answer_would_have_taken_whole_is_its_first_wait_and_all_its_tokens(
    requests: int, tokens: int, skipped: int
) -> None:
    whole = answer(requests=requests, overhead=0.1, tokens=tokens, skipped=skipped).whole
    assert whole is not None
    assert abs(whole - (0.1 + TOKEN * (requests * tokens + skipped - 1))) < 1e-9


def test_an_answer_of_single_tokens_tells_nothing() -> None:
    assert answer(requests=3, overhead=0.1, tokens=1).whole is None


def test_it_goes_on_while_requests_are_cheap() -> None:
    guard = SkipGuard()
    for _ in range(100):
        assert guard.allows()
        guard.add(answer(requests=3, overhead=TOKEN))
    assert guard.gain > 2


def test_it_stops_where_a_request_costs_more_than_it_saves_and_looks_again_later() -> None:
    guard = SkipGuard()
    allowed = 0
    for _ in range(300):
        if guard.allows():
            allowed += 1
            guard.add(answer(requests=3, overhead=40 * TOKEN))
    assert 8 <= allowed <= 8 * 5


def test_one_slow_answer_does_not_stop_it() -> None:
    guard = SkipGuard()
    for number in range(40):
        assert guard.allows()
        guard.add(answer(requests=3, overhead=40 * TOKEN if number % 16 == 15 else TOKEN))
