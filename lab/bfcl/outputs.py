"""Outputs to compare two scorers on: right ones out of the possible answers, and each of them spoiled in many ways.

Spoiled is not always wrong: where a scorer takes another spelling, both must. Chance is seeded by the question's id.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final, cast

from ferrule.bench.bfcl.score import Key, PossibleCall
from ferrule.bench.bfcl.tasks import Task
from lab.bfcl.damage import LISTS, NOT_FOR_IT, VALUES

Call = tuple[str, dict[str, Any]]
_ABSENT: Final = ""


@dataclass(frozen=True, slots=True)
class Output:
    """What a model might have called, and what was done to it."""

    how: str
    calls: tuple[Call, ...]


def outputs_of(task: Task) -> Iterator[Output]:
    """Every output for one question."""
    luck = Random(task.id)
    first = tuple(_call(task.key, expected, 0) for expected in task.key.expected)
    yield Output("the first of each", first)
    yield Output("the last of each", tuple(_call(task.key, expected, -1) for expected in task.key.expected))
    yield Output("nothing optional", tuple(_call(task.key, one, 0, with_optional=False) for one in task.key.expected))
    for how, spoil in LISTS.items():
        yield Output(how, tuple(spoil(list(first))))
    for number, (name, arguments) in enumerate(first):
        for how, changed in _spoiled(task.key, task.key.expected[number], name, arguments, luck):
            yield Output(how, (*first[:number], changed, *first[number + 1 :]))


def _call(key: Key, expected: PossibleCall, at: int, *, with_optional: bool = True) -> Call:
    arguments: dict[str, Any] = {}
    for name, allowed in expected.arguments.items():
        if with_optional or _ABSENT not in allowed:
            chosen = _chosen(allowed, at)
            if chosen is not NOT_FOR_IT:
                arguments[name] = chosen
    return key.offered(expected.name), arguments


def _chosen(allowed: Sequence[Any], at: int) -> Any:
    """One of the allowed values, with one chosen for each key of an object; nothing where there is none."""
    given = [one for one in allowed if one != _ABSENT]
    return _filled(given[at], at) if given else NOT_FOR_IT


def _filled(value: Any, at: int) -> Any:
    if isinstance(value, dict):
        keys = cast("Mapping[str, Any]", value)
        picked = {key: _chosen(held, at) if isinstance(held, list) else held for key, held in keys.items()}  # pyright: ignore[reportUnknownArgumentType]  # allowed values
        return {key: one for key, one in picked.items() if one is not NOT_FOR_IT}
    if isinstance(value, list):
        return [_filled(item, at) for item in cast("list[Any]", value)]
    return value


def _spoiled(
    key: Key, expected: PossibleCall, name: str, arguments: dict[str, Any], luck: Random
) -> Iterator[tuple[str, Call]]:
    """The call with something done to its name, to the set of its arguments, or to one of its values."""
    yield "another function", (f"{name}_too", arguments)
    yield "dots and underscores exchanged", (name.translate(str.maketrans("._", "_.")), arguments)
    yield "an argument that nobody knows", (name, {**arguments, "nobody_knows": 1})
    documented: Sequence[str] = list(key.document(expected.name)["parameters"]["properties"])
    for unused in (one for one in documented if one not in arguments):
        yield "an argument that was left out", (name, {**arguments, unused: luck.choice([0, "", "x", [], None])})
    for left_out in arguments:
        yield "an argument less", (name, {one: arguments[one] for one in arguments if one != left_out})
    for how, spoil in VALUES.items():
        changed = {one: spoil(value) for one, value in arguments.items()}
        fit = [one for one in changed if changed[one] is not NOT_FOR_IT]
        if fit:
            one = luck.choice(fit)
            yield how, (name, {**arguments, one: changed[one]})
