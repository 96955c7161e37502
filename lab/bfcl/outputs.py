"""Outputs for comparing two scorers: correct ones from the possible answers, and variants of each with one change.

A changed output is not always wrong: if one scorer accepts another spelling, the other must too. Random choices are
seeded with the question's id.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final, cast

from ferrule.bench.bfcl.score import AnswerKey, PossibleCall
from ferrule.bench.bfcl.tasks import Task
from lab.bfcl.damage import CALL_LIST_CHANGES, NOT_APPLICABLE, VALUE_CHANGES

Call = tuple[str, dict[str, Any]]
_ABSENT: Final = ""


@dataclass(frozen=True, slots=True)
class Output:
    """Calls that a model might have made, and how they were changed."""

    how: str
    calls: tuple[Call, ...]


def outputs_of(task: Task) -> Iterator[Output]:
    """All outputs for one question."""
    random = Random(task.id)
    first = tuple(_call(task.key, expected, 0) for expected in task.key.expected)
    yield Output("the first of each", first)
    yield Output("the last of each", tuple(_call(task.key, expected, -1) for expected in task.key.expected))
    yield Output("nothing optional", tuple(_call(task.key, one, 0, with_optional=False) for one in task.key.expected))
    for how, change in CALL_LIST_CHANGES.items():
        yield Output(how, tuple(change(list(first))))
    for number, (name, arguments) in enumerate(first):
        for how, call in _changed_calls(task.key, task.key.expected[number], name, arguments, random):
            yield Output(how, (*first[:number], call, *first[number + 1 :]))


def _call(key: AnswerKey, expected: PossibleCall, at: int, *, with_optional: bool = True) -> Call:
    arguments: dict[str, Any] = {}
    for name, allowed in expected.arguments.items():
        if with_optional or _ABSENT not in allowed:
            value = _pick_value(allowed, at)
            if value is not NOT_APPLICABLE:
                arguments[name] = value
    return key.offered_name(expected.name), arguments


def _pick_value(allowed: Sequence[Any], at: int) -> Any:
    """One of the allowed values, with one chosen for each key of an object; NOT_APPLICABLE if there is none."""
    values = [one for one in allowed if one != _ABSENT]
    return _fill_object(values[at], at) if values else NOT_APPLICABLE


def _fill_object(value: Any, at: int) -> Any:
    if isinstance(value, dict):
        keys = cast("Mapping[str, Any]", value)
        picked = {
            key: _pick_value(cast("list[Any]", allowed), at) if isinstance(allowed, list) else allowed
            for key, allowed in keys.items()
        }
        return {key: one for key, one in picked.items() if one is not NOT_APPLICABLE}
    if isinstance(value, list):
        return [_fill_object(item, at) for item in cast("list[Any]", value)]
    return value


def _changed_calls(
    key: AnswerKey, expected: PossibleCall, name: str, arguments: dict[str, Any], random: Random
) -> Iterator[tuple[str, Call]]:
    """Variants of a call with one change to its name, to the set of its arguments, or to one of its values."""
    yield "another function", (f"{name}_too", arguments)
    yield "dots and underscores exchanged", (name.translate(str.maketrans("._", "_.")), arguments)
    yield "an argument that nobody knows", (name, {**arguments, "nobody_knows": 1})
    documented: Sequence[str] = list(key.document(expected.name)["parameters"]["properties"])
    for unused in (one for one in documented if one not in arguments):
        yield "an argument that was left out", (name, {**arguments, unused: random.choice([0, "", "x", [], None])})
    for left_out in arguments:
        yield "an argument less", (name, {one: arguments[one] for one in arguments if one != left_out})
    for how, change in VALUE_CHANGES.items():
        changed = {one: change(value) for one, value in arguments.items()}
        applicable = [one for one in changed if changed[one] is not NOT_APPLICABLE]
        if applicable:
            one = random.choice(applicable)
            yield how, (name, {**arguments, one: changed[one]})
