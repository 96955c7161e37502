"""Decide whether a reply is correct as BFCL v4 does: compare its calls with the possible answers. No IO.

Written from the behaviour of the official scorer, and compared with it on thousands of outputs
(`scripts/long bfcl-scorer`). The rules for a single argument are in `values`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from ferrule.bench.bfcl.categories import Scoring
from ferrule.bench.bfcl.miss import Miss, Reason
from ferrule.core.call import ToolCall

# Decide whether one argument matches a possible answer, by the rules of BFCL's own scorer. No IO.
#
# Some rules are unusual. Scores are only comparable if all of them are followed:
#
# - A possible answer is a list of allowed values. If "" is among them, the argument may be omitted.
# - An int counts as a float if a float is expected. Nothing else is converted.
# - If the allowed values have a different type than the function's document says, a value of either type is
#   accepted and compared exactly.
# - Strings are compared without case, spaces and the characters , . / - _ * ^ and with ' as ". The same holds for
#   strings directly inside an array or an object, but not deeper. "" is also an allowed string and an allowed empty
#   array.
# - Items of an array have the type that the document says, or the type of the first allowed item. An array with ""
#   as an allowed value may contain anything.
# - In an object, each key has its own list of allowed values.

TYPES: Final[Mapping[str, type]] = {
    "string": str,
    "integer": int,
    "float": float,
    "boolean": bool,
    "array": list,
    "tuple": list,
    "dict": dict,
    "any": str,
}
_WITH_ITEMS: Final = frozenset({"array", "tuple"})
_ABSENT: Final = ""
_IGNORED: Final = re.compile(r"[ ,./\-_*^]")


def may_be_absent(allowed: Sequence[Any]) -> bool:
    return _ABSENT in allowed


def fault_of(value: Any, schema: Mapping[str, Any], allowed: Sequence[Any]) -> Reason | None:
    """What is wrong with a value; None if it is correct. `schema` is the argument's part of the document."""
    expected_type = TYPES[schema["type"]]
    inner = TYPES[schema["items"]["type"]] if schema["type"] in _WITH_ITEMS else None
    converted: Any = _as_float(value) if schema["type"] == "float" else value
    usual = _first_type(allowed)
    is_exact = usual is not None and usual is not expected_type
    if type(converted) is expected_type:
        if inner is not None and not _items_are(cast("list[Any]", converted), inner, allowed):
            return Reason.TYPE
    elif type(converted) is usual:
        is_exact = True
    else:
        return Reason.TYPE
    compare = _exactly if is_exact else _comparison(expected_type, inner)
    return None if compare(converted, allowed) else Reason.VALUE


def _as_float(value: Any) -> Any:
    if type(value) is not int:
        return value
    try:
        return float(value)
    except OverflowError:
        return value


def _first_type(allowed: Sequence[Any]) -> type[object] | None:
    return next((cast("type[object]", type(one)) for one in allowed if one != _ABSENT), None)


def _items_are(items: Sequence[Any], inner: type, allowed: Sequence[Any]) -> bool:
    def fit(one: Any) -> bool:
        if not isinstance(one, list):
            return True
        types = (inner, _first_type(cast("list[Any]", one)))
        return all(type(item) in types for item in items)

    return any(map(fit, allowed))


def _comparison(expected_type: type, inner: type | None) -> Callable[[Any, Sequence[Any]], bool]:
    if expected_type is list and inner is dict:
        return _objects
    return _COMPARISONS.get(expected_type, _exactly)


def _exactly(value: Any, allowed: Sequence[Any]) -> bool:
    return value in allowed


def _string(value: str, allowed: Sequence[Any]) -> bool:
    return _standard(value) in [_standard(one) for one in allowed if isinstance(one, str)]


def _array(value: Sequence[Any], allowed: Sequence[Any]) -> bool:
    return _standards(value) in [_standards(one) for one in allowed]


def _object(value: Any, allowed: Sequence[Any]) -> bool:
    return any(_object_fits(value, one) for one in allowed)


def _objects(value: Sequence[Any], allowed: Sequence[Any]) -> bool:
    return any(len(value) == len(one) and all(map(_object_fits, value, one)) for one in allowed)


def _object_fits(value: Any, allowed: Any) -> bool:
    # The items of a list for which "" is allowed are not type checked, so they can be anything.
    if not isinstance(value, dict) or not isinstance(allowed, dict):
        return False
    members, keys = cast("dict[str, Any]", value), cast("dict[str, Sequence[Any]]", allowed)
    if any(key not in members and not may_be_absent(values) for key, values in keys.items()):
        return False
    return all(key in keys and _standard(one) in _standards(keys[key]) for key, one in members.items())


def _standard(value: Any) -> Any:
    return _IGNORED.sub("", value).lower().replace("'", '"') if isinstance(value, str) else value


def _standards(values: Sequence[Any]) -> list[Any]:
    return [_standard(value) for value in values]


_COMPARISONS: Final[Mapping[type, Callable[[Any, Sequence[Any]], bool]]] = {str: _string, list: _array, dict: _object}


Document = Mapping[str, Any]
NAMES: Final[Mapping[bool, str]] = {False: "dotted", True: "underscored"}
"""How function names are offered: with their dots, or with underscores instead."""


@dataclass(frozen=True, slots=True)
class PossibleCall:
    """One expected call: the function, and the correct values of each argument."""

    name: str
    arguments: Mapping[str, Sequence[Any]]


@dataclass(frozen=True, slots=True)
class AnswerKey:
    """What a reply is compared with: the functions as BFCL documents them, and the expected calls.

    `is_underscored`: the functions were offered with an underscore for each dot in their names.
    """

    scoring: Scoring
    documents: tuple[Document, ...] = ()
    expected: tuple[PossibleCall, ...] = ()
    is_underscored: bool = False

    def offered_name(self, name: str) -> str:
        return name.replace(".", "_") if self.is_underscored else name

    def document(self, name: str) -> Document:
        return next(document for document in self.documents if document["name"] == name)


@dataclass(frozen=True, slots=True)
class _ParsedCall:
    name: str
    arguments: Mapping[str, Any]


def miss_of(key: AnswerKey, calls: Sequence[ToolCall]) -> Miss | None:
    """What is wrong with the calls of a reply; None if they are correct."""
    parsed = [_parse_call(call) for call in calls]
    readable = [one for one in parsed if one is not None]
    match key.scoring:
        case Scoring.NO_CALL:
            return Miss(Reason.CALLED, readable[0].name) if readable else None
        case Scoring.ANY_CALL:
            return None if readable else Miss(Reason.NOT_CALLED)
        case Scoring.SAME_CALLS:
            if None in parsed:
                return Miss(Reason.UNREADABLE, calls[parsed.index(None)].name)
            return _compare_calls(key, readable)


def _parse_call(call: ToolCall) -> _ParsedCall | None:
    try:
        return _ParsedCall(call.name, call.arguments)
    except ValueError:
        return None


def _compare_calls(key: AnswerKey, calls: list[_ParsedCall]) -> Miss | None:
    if not calls:
        return Miss(Reason.NOT_CALLED)
    if len(calls) != len(key.expected):
        return Miss(Reason.COUNT)
    remaining = list(calls)
    for expected in key.expected:
        misses = [_miss_of_call(key, expected, one) for one in remaining]
        if None not in misses:
            return _most_relevant([miss for miss in misses if miss])
        # The first match is taken, even if a later expected call then has none. The official scorer does the same.
        del remaining[misses.index(None)]
    return None


def _most_relevant(misses: Sequence[Miss]) -> Miss:
    """Prefer the miss of a call to the correct function: a different function says little."""
    return next((miss for miss in misses if miss.reason is not Reason.FUNCTION), misses[0])


def _miss_of_call(key: AnswerKey, expected: PossibleCall, call: _ParsedCall) -> Miss | None:
    if call.name != key.offered_name(expected.name):
        return Miss(Reason.FUNCTION, call.name)
    parameters = key.document(expected.name)["parameters"]
    for name in parameters["required"]:
        if name not in call.arguments:
            return Miss(Reason.MISSING, name)
    for name, value in call.arguments.items():
        if name not in parameters["properties"] or name not in expected.arguments:
            return Miss(Reason.UNEXPECTED, name)
        fault = fault_of(value, parameters["properties"][name], expected.arguments[name])
        if fault:
            return Miss(fault, name)
    for name, allowed in expected.arguments.items():
        if name not in call.arguments and not may_be_absent(allowed):
            return Miss(Reason.MISSING, name)
    return None
