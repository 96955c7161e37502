"""The rule cache returns what was stored, stays within its bytes, and drops the least recently used entry first."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ferrule import ToolChoice, ToolDefinition
from ferrule.rules.cache import RuleCache, RuleKey, rule_key

KEYS = st.integers(0, 20).map(lambda number: RuleKey("hermes", str(number), "auto:", "lark"))


@given(st.lists(st.tuples(KEYS, st.integers(0, 40)), max_size=60), st.integers(0, 200))
def test_the_cache_stays_within_its_bytes_and_returns_the_right_entry(
    requests: list[tuple[RuleKey, int]], max_bytes: int
) -> None:
    cache = RuleCache(max_bytes)
    for key, size in requests:
        text = f"{key.tools}:" + "x" * size
        cached = cache.get(key, lambda text=text: text)
        assert cached.startswith(f"{key.tools}:")
        assert cache.size <= max_bytes


def test_the_least_recently_used_entry_is_dropped_first() -> None:
    cache = RuleCache(20)
    first, second, third = (RuleKey("f", name, "", "") for name in "abc")
    for key in (first, second, first, third):
        cache.get(key, lambda: "0123456789")
    misses = cache.misses
    cache.get(first, lambda: "0123456789")
    assert cache.misses == misses
    cache.get(second, lambda: "0123456789")
    assert cache.misses == misses + 1


def test_equal_tool_sets_share_a_key_and_a_changed_description_does_not() -> None:
    def key(description: str) -> RuleKey:
        return rule_key("hermes", (ToolDefinition("ping", description),), ToolChoice.auto(), "lark")

    assert key("a") == key("a")
    assert key("a") != key("b")
