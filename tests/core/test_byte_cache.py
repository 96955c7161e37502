"""Caches share one budget in bytes: it is never exceeded, and the least recently used entry of any cache goes first."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.core import byte_cache
from ferrule.core.byte_cache import ByteCache, CacheBudget, byte_cached, text_bytes


@pytest.fixture
def budget(monkeypatch: pytest.MonkeyPatch) -> CacheBudget:
    """A budget of 100 bytes in place of the process's."""
    budget = CacheBudget(100)
    monkeypatch.setattr(byte_cache, "PROCESS_BUDGET", budget)
    return budget


def cache_of_texts() -> ByteCache[str, str]:
    return ByteCache(lambda key, value: len(key) + len(value))


STEPS = st.lists(st.tuples(st.integers(0, 3), st.sampled_from("abcdefgh"), st.integers(0, 120)), max_size=80)


@given(STEPS)
def test_many_caches_together_stay_within_the_budget(steps: list[tuple[int, str, int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        budget = CacheBudget(100)
        patch.setattr(byte_cache, "PROCESS_BUDGET", budget)
        caches = [cache_of_texts() for _ in range(4)]
        for number, key, size in steps:
            value = caches[number].get(key, lambda key=key, size=size: key + "x" * size)
            assert value.startswith(key)
            assert budget.size <= 100
            assert budget.size == sum(cache.size for cache in caches)


def test_one_cache_drops_the_oldest_entry_of_another(budget: CacheBudget) -> None:
    old, new = cache_of_texts(), cache_of_texts()
    old.get("a", lambda: "x" * 39)
    old.get("b", lambda: "x" * 39)
    assert old.lookup("a") is not None
    new.get("c", lambda: "x" * 39)
    assert old.lookup("b") is None
    assert old.lookup("a") is not None
    assert new.lookup("c") is not None


def test_an_entry_that_is_larger_than_the_budget_is_returned_and_not_stored(budget: CacheBudget) -> None:
    cache = cache_of_texts()
    cache.get("a", lambda: "x")
    assert cache.get("b", lambda: "x" * 1_000) == "x" * 1_000
    assert cache.lookup("b") is None
    assert cache.lookup("a") == "x"


def test_clearing_a_cache_leaves_the_entries_of_others(budget: CacheBudget) -> None:
    one, two = cache_of_texts(), cache_of_texts()
    one.get("a", lambda: "x")
    two.get("a", lambda: "y")
    one.cache_clear()
    assert one.lookup("a") is None
    assert two.lookup("a") == "y"
    assert budget.size == two.size == 2


def test_a_smaller_budget_drops_entries_at_once(budget: CacheBudget) -> None:
    cache = cache_of_texts()
    for key in "abcd":
        cache.get(key, lambda: "x" * 19)
    budget.max_bytes = 40
    assert budget.size == 40
    assert cache.lookup("a") is None
    assert cache.lookup("d") is not None


def test_a_cached_function_is_called_once_for_its_arguments(budget: CacheBudget) -> None:
    calls: list[tuple[str, int]] = []

    @byte_cached(text_bytes(0, base=10))
    def join(text: str, number: int) -> str:
        calls.append((text, number))
        return f"{text}{number}"

    assert [join("a", 1), join("a", 1), join("a", 2)] == ["a1", "a1", "a2"]
    assert calls == [("a", 1), ("a", 2)]
    assert join.size == 20
    join.cache_clear()
    assert join("a", 1) == "a1"
    assert len(calls) == 3


def test_an_error_of_a_cached_function_is_not_cached(budget: CacheBudget) -> None:
    @byte_cached(text_bytes(0))
    def fail(text: str) -> str:
        raise ValueError(text)

    for _ in range(2):
        with pytest.raises(ValueError, match="why"):
            fail("why")
    assert fail.misses == 2


def test_threads_that_share_a_cache_keep_the_sum_of_its_sizes_right(budget: CacheBudget) -> None:
    caches = [cache_of_texts() for _ in range(3)]

    def work(seed: int) -> None:
        for step in range(2_000):
            number = (seed * 7 + step * 13) % 40
            caches[number % 3].get(str(number), lambda number=number: "x" * number)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert budget.size == sum(cache.size for cache in caches) <= 100
