"""What usage says about tools before a question is read: a factor for each tool, close to 1.

A tool that is called more often than others, each time that models could call it, gets a factor above 1; one that is
loaded and not called, or whose calls fail, gets one below 1. A tool of which nothing is known has exactly 1, and so has
every tool where all are used alike. Old usage counts less: half after each half-life.

    lift   = (good + A) / (expected + A)     good: calls that did not fail; expected: as many as the average tool has
    factor = 1 + BOUND * (lift - 1) / (lift + 1)

A is how many good calls it takes until usage counts as much as what was expected without it. The factor stays
within 1 - BOUND and 1 + BOUND whatever the counts are: usage decides between tools whose words fit about equally well,
and no amount of calls moves a tool before one that fits better by more than `MAX_RATIO`.
"""

from __future__ import annotations

from collections.abc import Iterable

from ferrule.core.tool_use import ToolUse

BOUND = 0.1
HIGHEST, LOWEST = 1 + BOUND, 1 - BOUND
MAX_RATIO = HIGHEST / LOWEST
"""A tool whose words fit better by more than this stays before the other, whatever their usage."""
HALF_LIFE_SECONDS = 14 * 86_400.0
_EXPECTED_WITHOUT_USAGE = 5.0


def usage_prior(uses: Iterable[ToolUse], now: float, half_life_seconds: float = HALF_LIFE_SECONDS) -> dict[str, float]:
    """Return the factor of each tool whose factor is not 1.

    Example:
        prior = usage_prior([ToolUse("get_weather", now, loaded=40, called=12)], now)
        index.search("the weather in Rome", prior=prior)
    """
    # The sums do not depend on the order in which the uses come.
    ordered = sorted(uses, key=lambda use: (use.tool, use.at, use.loaded, use.called, use.failed))
    loaded: dict[str, float] = {}
    good: dict[str, float] = {}
    for use in ordered:
        # A clock that is ahead must not give a use more weight than one of this moment.
        weight = 0.5 ** (max(now - use.at, 0.0) / half_life_seconds)
        loaded[use.tool] = loaded.get(use.tool, 0.0) + weight * use.loaded
        good[use.tool] = good.get(use.tool, 0.0) + weight * max(use.called - use.failed, 0)
    total = sum(loaded.values())
    rate = sum(good.values()) / total if total else 0.0
    factors = {tool: _factor(good[tool], rate * loaded[tool]) for tool in good}
    return {tool: factor for tool, factor in factors.items() if factor != 1.0}


def bounded_factor(factor: float) -> float:
    """Return a factor within the bounds, also if somebody else computed it."""
    return min(max(factor, LOWEST), HIGHEST)


def _factor(good: float, expected: float) -> float:
    lift = (good + _EXPECTED_WITHOUT_USAGE) / (expected + _EXPECTED_WITHOUT_USAGE)
    # Rounded, so that sums that differ only in their last digits are the same factor, and alike tools have 1.
    return round(1 + BOUND * (lift - 1) / (lift + 1), 6)
