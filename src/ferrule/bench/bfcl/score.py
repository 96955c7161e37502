"""Decide whether a reply is correct as BFCL v4 does: compare its calls with the possible answers. No IO.

Written from the behaviour of the official scorer, and compared with it on thousands of outputs
(`scripts/long bfcl-scorer`). The rules for a single argument are in `values`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ferrule.bench.bfcl.categories import Scoring
from ferrule.bench.bfcl.miss import Miss, Reason
from ferrule.bench.bfcl.values import fault_of, may_be_absent
from ferrule.core.call import ToolCall

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
