"""The cache gives back what was made, keeps within its bytes, and forgets what was used longest ago."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ferrule import ToolChoice, ToolDefinition
from ferrule.rules.cache import RuleCache, RuleKey, rule_key

KEYS = st.integers(0, 20).map(lambda number: RuleKey("hermes", str(number), "auto:", "lark"))


@given(st.lists(st.tuples(KEYS, st.integers(0, 40)), max_size=60), st.integers(0, 200))
def test_it_never_holds_more_than_its_bytes_and_never_gives_back_something_else(
    asked: list[tuple[RuleKey, int]], most: int
) -> None:
    cache = RuleCache(most)
    for key, size in asked:
        made = f"{key.tools}:" + "x" * size
        got = cache.get(key, lambda made=made: made)
        assert got.startswith(f"{key.tools}:")
        assert cache.size <= most


def test_what_was_used_longest_ago_is_forgotten_first() -> None:
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
