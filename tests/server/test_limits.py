from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.errors import TooManyError
from ferrule.server.auth.rate_limits import Limiter, TokenBucket
from ferrule.server.config.config import GatewayLimits
from server.keys import key


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@given(st.integers(1, 600), st.lists(st.floats(0, 30), max_size=60))
def test_no_interval_admits_more_requests_than_the_rate_allows(rate: int, waits: list[float]) -> None:
    clock = Clock()
    bucket = TokenBucket(rate, clock)
    moments = [0.0 for _ in range(rate + 5) if bucket.take() == 0.0]
    for wait in waits:
        clock.now += wait
        moments += [clock.now] if bucket.take() == 0.0 else []
    for first in range(len(moments)):
        for last in range(first, len(moments)):
            allowed = rate + (moments[last] - moments[first]) * rate / 60
            assert last - first + 1 <= allowed + 1e-6


@given(st.integers(1, 600), st.integers(1, 4))
def test_a_client_that_waits_for_retry_after_is_admitted(rate: int, workers: int) -> None:
    clock = Clock()
    bucket = TokenBucket(rate / workers, clock)
    while (wait := bucket.take()) == 0.0:
        pass
    clock.now += wait + 1e-9
    assert bucket.take() == 0.0


@given(st.lists(st.sampled_from(["ann", "bob"]), max_size=40), st.integers(1, 4), st.integers(1, 6))
def test_neither_a_key_nor_the_gateway_exceeds_its_simultaneous_answers(who: list[str], width: int, total: int) -> None:
    limiter = Limiter.of(GatewayLimits(streams=total), [key("ann", width=width), key("bob")])
    acquired = []
    for name in who:
        slot = limiter.slot(name)
        with suppress(TooManyError):
            slot.__enter__()
            acquired.append((name, slot))
    assert len(acquired) == limiter.gateway_slots.in_use <= total
    assert sum(name == "ann" for name, _ in acquired) <= width
    for _, slot in acquired:
        slot.__exit__(None, None, None)
    assert limiter.gateway_slots.in_use == 0
    assert all_free(limiter)


def all_free(limiter: Limiter) -> bool:
    return not any(slots.in_use for slots in limiter.key_slots.values())


def test_a_slot_is_free_again_when_an_answer_fails() -> None:
    limiter = Limiter.of(GatewayLimits(streams=1), [])
    with pytest.raises(ValueError, match="broke"), limiter.slot(""):
        raise ValueError("it broke")
    with limiter.slot(""):
        assert limiter.gateway_slots.is_full


def test_a_key_without_a_rate_is_not_limited() -> None:
    limiter = Limiter.of(GatewayLimits(), [key("ann")])
    for _ in range(1000):
        limiter.count_request("ann")


def test_one_key_does_not_use_up_anothers_rate() -> None:
    limiter = Limiter.of(GatewayLimits(), [key("ann", rate=1), key("bob", rate=1)], clock=Clock())
    limiter.count_request("ann")
    with pytest.raises(TooManyError):
        limiter.count_request("ann")
    limiter.count_request("bob")


@given(st.integers(1, 50), st.integers(1, 8))
def test_the_shares_of_all_workers_cover_the_limit_of_a_key(width: int, workers: int) -> None:
    limiter = Limiter.of(GatewayLimits(), [key("ann", width=width)], workers)
    share = limiter.key_slots["ann"].limit
    assert width <= share * workers < width + workers
