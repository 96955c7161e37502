"""What usage says about tools: a factor close to 1, that nobody can push beyond its bounds."""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.core.tool import ToolDefinition
from ferrule.core.tool_use import ToolUse
from ferrule.sources.search.tool_index import ToolIndex
from ferrule.sources.search.usage_prior import (
    HALF_LIFE_SECONDS,
    HIGHEST,
    LOWEST,
    MAX_RATIO,
    bounded_factor,
    usage_prior,
)

NOW = 1_800_000_000.0
counts = st.integers(min_value=0, max_value=10**9)
uses = st.builds(
    ToolUse,
    st.sampled_from(["a", "b", "c", "d"]),
    st.floats(min_value=0, max_value=2 * NOW),
    counts,
    counts,
    counts,
)


@given(st.lists(uses, max_size=20))
def test_no_counts_push_a_factor_beyond_its_bounds(history: list[ToolUse]) -> None:
    assert all(LOWEST <= factor <= HIGHEST for factor in usage_prior(history, NOW).values())


@given(st.lists(uses, max_size=20), st.randoms(use_true_random=False))
def test_the_order_of_the_counts_changes_nothing(history: list[ToolUse], chance: random.Random) -> None:
    shuffled = list(history)
    chance.shuffle(shuffled)
    assert usage_prior(shuffled, NOW) == usage_prior(history, NOW)


@given(st.integers(1, 10**6), st.integers(0, 10**6), st.integers(2, 50))
def test_tools_that_are_used_alike_have_no_factor(loaded: int, called: int, tools: int) -> None:
    history = [ToolUse(f"tool_{number}", NOW, loaded, min(called, loaded)) for number in range(tools)]
    assert usage_prior(history, NOW) == {}


def test_a_tool_that_is_called_rises_and_one_that_is_only_loaded_falls() -> None:
    prior = usage_prior([ToolUse("used", NOW, 100, 60), ToolUse("ignored", NOW, 100, 0)], NOW)
    assert prior["used"] > 1 > prior["ignored"]


def test_calls_that_fail_do_not_count() -> None:
    failing = usage_prior([ToolUse("a", NOW, 100, 60, 60), ToolUse("b", NOW, 100, 60)], NOW)
    never_called = usage_prior([ToolUse("a", NOW, 100), ToolUse("b", NOW, 100, 60)], NOW)
    assert failing == never_called
    assert failing["a"] < 1 < failing["b"]


def test_a_new_tool_is_neither_raised_nor_lowered() -> None:
    assert "new" not in usage_prior([ToolUse("old", NOW, 1000, 900), ToolUse("new", NOW)], NOW)


def test_usage_fades_with_time() -> None:
    def factor(age: float) -> float:
        history = [ToolUse("a", NOW - age, 100, 60), ToolUse("b", NOW - age, 100, 0)]
        return usage_prior(history, NOW).get("a", 1.0)

    ages = [0, 1, 2, 4, 20]
    factors = [factor(age * HALF_LIFE_SECONDS) for age in ages]
    assert factors == sorted(factors, reverse=True)
    assert factors[0] > factors[-1]
    assert factor(200 * HALF_LIFE_SECONDS) == 1.0
    assert factor(-HALF_LIFE_SECONDS) == factor(0), "a clock that is ahead adds nothing"


@pytest.mark.parametrize("wrong", [float("inf"), 10.0, 0.0, -5.0])
def test_a_factor_of_somebody_else_is_held_to_the_bounds(wrong: float) -> None:
    assert LOWEST <= bounded_factor(wrong) <= HIGHEST


WORDS = ["weather", "city", "order", "mail", "price", "street", "rain", "ticket"]
tool_texts = st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=6), min_size=1, max_size=12)


@given(tool_texts, st.lists(st.sampled_from(WORDS), min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_a_search_with_a_prior_is_the_one_without_it_times_the_factors(
    texts: list[list[str]], query: list[str], chance: random.Random
) -> None:
    """The best few of many, without reading all, are the best of all."""
    tools = [ToolDefinition(f"tool_{number:02}", " ".join(words)) for number, words in enumerate(texts)]
    index, text = ToolIndex(tools), " ".join(query)
    prior = {tool.name: chance.choice([LOWEST, 0.99, 1.0, HIGHEST, 7.0]) for tool in tools if chance.random() < 0.7}
    plain = {match.tool.name: match.score for match in index.search(text, 100)}
    expected = sorted(
        ((score * bounded_factor(prior.get(name, 1.0)), name) for name, score in plain.items()),
        key=lambda one: (-one[0], one[1]),
    )
    for limit in (1, 3, 100):
        found = [(match.score, match.tool.name) for match in index.search(text, limit, prior=prior)]
        assert [name for _, name in found] == [name for _, name in expected[:limit]]
        assert [score for score, _ in found] == pytest.approx([score for score, _ in expected[:limit]])
    assert index.search(text, 100, prior={}) == index.search(text, 100)


@given(tool_texts, st.lists(st.sampled_from(WORDS), min_size=1, max_size=4))
def test_no_prior_moves_a_tool_before_one_that_fits_much_better(texts: list[list[str]], query: list[str]) -> None:
    tools = [ToolDefinition(f"tool_{number:02}", " ".join(words)) for number, words in enumerate(texts)]
    index, text = ToolIndex(tools), " ".join(query)
    plain = {match.tool.name: match.score for match in index.search(text, 100)}
    for pushed, pushed_score in plain.items():
        prior = {name: 1e9 if name == pushed else -1e9 for name in plain}
        order = [match.tool.name for match in index.search(text, 100, prior=prior)]
        for name, score in plain.items():
            if score > pushed_score * MAX_RATIO * 1.0001:
                assert order.index(name) < order.index(pushed)


def test_a_search_with_a_prior_reads_a_few_of_the_tools_that_have_a_word() -> None:
    """Weighed against reading all of them, in the same run."""
    tools = [ToolDefinition(f"account_{number:05}", f"an account {number}") for number in range(5_000)]
    index, popular = ToolIndex(tools), tools[-1].name
    prior = {tool.name: LOWEST for tool in tools} | {popular: HIGHEST}

    def spent(limit: int, prior: dict[str, float] | None) -> float:
        started_at = time.process_time()
        found = index.search("account", limit, prior=prior)
        assert found[0].tool.name == popular or prior is None
        return time.process_time() - started_at

    on_all = min(spent(len(tools), None) for _ in range(3))
    assert min(spent(5, prior) for _ in range(3)) < on_all / 2


def test_a_popular_tool_that_may_not_be_called_is_not_found() -> None:
    tools = [ToolDefinition("mine", "weather"), ToolDefinition("theirs", "weather")]
    found = ToolIndex(tools).search("weather", prior={"theirs": HIGHEST}, is_allowed=lambda tool: tool.name == "mine")
    assert [match.tool.name for match in found] == ["mine"]
