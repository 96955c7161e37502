from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.errors import TooManyError
from ferrule.server.auth.rate_limits import Bucket, Limiter
from ferrule.server.config.config import Limits
from server.keys import key


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@given(st.integers(1, 600), st.lists(st.floats(0, 30), max_size=60))
def test_in_no_stretch_of_time_are_more_let_in_than_the_rate_allows(rate: int, waits: list[float]) -> None:
    clock = Clock()
    bucket = Bucket(rate, clock)
    let_in = [0.0 for _ in range(rate + 5) if bucket.take() == 0.0]
    for wait in waits:
        clock.now += wait
        let_in += [clock.now] if bucket.take() == 0.0 else []
    for first in range(len(let_in)):
        for last in range(first, len(let_in)):
            allowed = rate + (let_in[last] - let_in[first]) * rate / 60
            assert last - first + 1 <= allowed + 1e-6


@given(st.integers(1, 600), st.integers(1, 4))
def test_who_waits_as_long_as_he_was_told_is_let_in(rate: int, workers: int) -> None:
    clock = Clock()
    bucket = Bucket(rate / workers, clock)
    while (wait := bucket.take()) == 0.0:
        pass
    clock.now += wait + 1e-9
    assert bucket.take() == 0.0


@given(st.lists(st.sampled_from(["ann", "bob"]), max_size=40), st.integers(1, 4), st.integers(1, 6))
def test_no_key_has_more_answers_than_its_width_and_the_gateway_not_more_than_all(
    who: list[str], width: int, all: int
) -> None:
    limiter = Limiter.of(Limits(streams=all), [key("ann", width=width), key("bob")])
    inside = []
    for name in who:
        place = limiter.place(name)
        with suppress(TooManyError):
            place.__enter__()
            inside.append((name, place))
    assert len(inside) == limiter.all.taken <= all
    assert sum(name == "ann" for name, _ in inside) <= width
    for _, place in inside:
        place.__exit__(None, None, None)
    assert limiter.all.taken == 0
    assert all_free(limiter)


def all_free(limiter: Limiter) -> bool:
    return not any(places.taken for places in limiter.keys.values())


def test_a_place_is_free_again_when_an_answer_fails() -> None:
    limiter = Limiter.of(Limits(streams=1), [])
    with pytest.raises(ValueError, match="broke"), limiter.place(""):
        raise ValueError("it broke")
    with limiter.place(""):
        assert limiter.all.is_full


def test_a_key_without_a_rate_is_not_counted() -> None:
    limiter = Limiter.of(Limits(), [key("ann")])
    for _ in range(1000):
        limiter.count("ann")


def test_one_key_does_not_use_up_anothers_rate() -> None:
    limiter = Limiter.of(Limits(), [key("ann", rate=1), key("bob", rate=1)], clock=Clock())
    limiter.count("ann")
    with pytest.raises(TooManyError):
        limiter.count("ann")
    limiter.count("bob")


@given(st.integers(1, 50), st.integers(1, 8))
def test_workers_share_what_a_key_may_and_together_give_it_all(width: int, workers: int) -> None:
    limiter = Limiter.of(Limits(), [key("ann", width=width)], workers)
    share = limiter.keys["ann"].most
    assert width <= share * workers < width + workers
