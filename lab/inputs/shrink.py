"""Make a failing input small enough to read: remove and shorten parts as long as it still fails."""

from collections.abc import Awaitable, Callable, Iterator
from copy import deepcopy
from dataclasses import replace
from typing import Any, Final, cast

from lab.inputs.input import Input
from lab.inputs.odd_values import Raw

_ROUNDS: Final = 400


async def shrink(failing: Input, fails: Callable[[Input], Awaitable[bool]]) -> Input:
    """Return the smallest input that was found. It takes at most some hundred requests."""
    smallest: Input = failing
    tries, improved = 0, True
    while improved and tries < _ROUNDS:
        improved = False
        for body in _smaller(smallest.body):
            tries += 1
            if tries > _ROUNDS:
                break
            candidate: Input = replace(smallest, body=body)
            if await fails(candidate):
                smallest, improved = candidate, True
                break
    return smallest


def _smaller(value: Any) -> Iterator[Any]:
    """Values that are one step smaller, largest steps first."""
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value)
        for key in items:
            yield {name: item for name, item in items.items() if name != key}
        for key, item in items.items():
            for smaller in _smaller(item):
                yield {**items, key: smaller}
    elif isinstance(value, list):
        entries = cast("list[Any]", value)
        if len(entries) > 3:
            yield deepcopy(entries[: len(entries) // 2])
            yield deepcopy(entries[len(entries) // 2 :])
        for at in range(min(len(entries), 20)):
            yield entries[:at] + entries[at + 1 :]
        for at, item in enumerate(entries[:20]):
            for smaller in _smaller(item):
                yield [*entries[:at], smaller, *entries[at + 1 :]]
    elif isinstance(value, str) and len(value) > 8:
        yield value[: len(value) // 2]
        yield value[len(value) // 2 :]


def readable(one: Input) -> str:
    """An input for a report, with long texts cut."""
    return f"{one.path} {_short(one.body)!r} {dict(one.headers)} {'; '.join(one.changes)} ({', '.join(one.names)})"


def _short(value: Any) -> Any:
    match value:
        case str() if len(value) > 120:
            return f"{value[:60]}...({len(value)} characters)"
        case Raw(text) if len(text) > 40:
            return Raw(f"{text[:20]}...({len(text)} characters)")
        case int() if value.bit_length() > 200:
            return f"(an integer of {value.bit_length()} bits)"
        case dict():
            items = cast("dict[str, Any]", value)
            return {key: _short(item) for key, item in list(items.items())[:20]}
        case list():
            return [_short(item) for item in cast("list[Any]", value)[:20]]
        case _:
            return value
