"""Integers between two bounds, written digit by digit, for targets that match characters and not numbers."""

from __future__ import annotations

from math import ceil, floor
from typing import Any

from ferrule.rules.rule import Chars, Repeat, RuleNode, Text, once, one_of, seq

_DIGIT = Chars((("0", "9"),))
_FIRST = Chars((("1", "9"),))
_LARGEST = 10**18
LOWER, UPPER = ("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")


def integers(schema: Any) -> RuleNode | None:
    """The integers that a schema's bounds allow; None if it sets no usable bounds, or contradictory ones."""
    low = max((_lower_limit(name, schema[name]) for name in LOWER if _is_bound(schema.get(name))), default=None)
    high = min((_upper_limit(name, schema[name]) for name in UPPER if _is_bound(schema.get(name))), default=None)
    if low is None and high is None:
        return None
    if low is not None and high is not None and low > high:
        return None
    options: list[RuleNode] = []
    if low is None or low < 0:
        # For negative numbers the bounds swap: the smallest number has the largest absolute value.
        nearest = 1 if high is None or high >= 0 else -high
        options += [seq("-", option) for option in _between(nearest, None if low is None else -low)]
    if high is None or high >= 0:
        options += _between(max(0, low or 0), high)
    return once(one_of(*options))


def _is_bound(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _LARGEST


def _lower_limit(name: str, value: float) -> int:
    return floor(value) + 1 if name == "exclusiveMinimum" else ceil(value)


def _upper_limit(name: str, value: float) -> int:
    return ceil(value) - 1 if name == "exclusiveMaximum" else floor(value)


def _between(low: int, high: int | None) -> list[RuleNode]:
    """Non-negative numbers between two bounds, one option for each number of digits."""
    options: list[RuleNode] = []
    longest = len(str(low)) if high is None else len(str(high))
    for size in range(len(str(low)), longest + 1):
        first = max(low, 0 if size == 1 else 10 ** (size - 1))
        last = 10**size - 1 if high is None else min(high, 10**size - 1)
        options.append(_same_length(str(first), str(last)))
    if high is None:
        options.append(seq(_FIRST, Repeat(_DIGIT, longest)))
    return options


def _same_length(low: str, high: str) -> RuleNode:
    if low == high:
        return Text(low)
    if len(low) == 1:
        return Chars(((low, high),))
    rest = len(low) - 1
    if low[0] == high[0]:
        return seq(low[0], _same_length(low[1:], high[1:]))
    zeros, nines = "0" * rest, "9" * rest
    options: list[RuleNode] = []
    start, end = low[0], high[0]
    if low[1:] != zeros:
        options.append(seq(low[0], _same_length(low[1:], nines)))
        start = chr(ord(start) + 1)
    if high[1:] != nines:
        end = chr(ord(end) - 1)
    if start <= end:
        options.append(seq(Chars(((start, end),)), Repeat(_DIGIT, rest, rest)))
    if high[1:] != nines:
        options.append(seq(high[0], _same_length(zeros, high[1:])))
    return one_of(*options)
