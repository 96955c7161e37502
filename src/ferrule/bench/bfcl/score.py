"""Whether a reply is right, as BFCL v4 judges it: the calls of a reply beside the possible answers. No IO.

Written from what the official scorer does, and compared with it on thousands of outputs (`scripts/long bfcl-scorer`).
What the rules are for one argument stands in `values`.
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
"""How functions are offered: with the dots of their names, or with _ for each."""


@dataclass(frozen=True, slots=True)
class PossibleCall:
    """One call that is expected: the function, and for each argument the values that are right."""

    name: str
    arguments: Mapping[str, Sequence[Any]]


@dataclass(frozen=True, slots=True)
class Key:
    """What a reply is compared with: the functions as BFCL documents them, and the calls that are expected.

    `is_underscored` says that the functions were offered with _ for each dot in their names.
    """

    scoring: Scoring
    documents: tuple[Document, ...] = ()
    expected: tuple[PossibleCall, ...] = ()
    is_underscored: bool = False

    def offered(self, name: str) -> str:
        return name.replace(".", "_") if self.is_underscored else name

    def document(self, name: str) -> Document:
        return next(document for document in self.documents if document["name"] == name)


@dataclass(frozen=True, slots=True)
class _Made:
    name: str
    arguments: Mapping[str, Any]


def miss_of(key: Key, calls: Sequence[ToolCall]) -> Miss | None:
    """What is wrong with the calls of a reply; None where they are right."""
    made = [_made(call) for call in calls]
    readable = [one for one in made if one is not None]
    match key.scoring:
        case Scoring.NO_CALL:
            return Miss(Reason.CALLED, readable[0].name) if readable else None
        case Scoring.ANY_CALL:
            return None if readable else Miss(Reason.NOT_CALLED)
        case Scoring.SAME_CALLS:
            if None in made:
                return Miss(Reason.UNREADABLE, calls[made.index(None)].name)
            return _compared(key, readable)


def _made(call: ToolCall) -> _Made | None:
    try:
        return _Made(call.name, call.arguments)
    except ValueError:
        return None


def _compared(key: Key, made: list[_Made]) -> Miss | None:
    if not made:
        return Miss(Reason.NOT_CALLED)
    if len(made) != len(key.expected):
        return Miss(Reason.COUNT)
    left = list(made)
    for expected in key.expected:
        misses = [_miss_of_call(key, expected, one) for one in left]
        if None not in misses:
            return _most_telling([miss for miss in misses if miss])
        # The first that fits is taken, even if a later expected call fits nothing else: so does the official scorer.
        del left[misses.index(None)]
    return None


def _most_telling(misses: Sequence[Miss]) -> Miss:
    """Of a call to the right function, if there is one: that others are to other functions says little."""
    return next((miss for miss in misses if miss.reason is not Reason.FUNCTION), misses[0])


def _miss_of_call(key: Key, expected: PossibleCall, made: _Made) -> Miss | None:
    if made.name != key.offered(expected.name):
        return Miss(Reason.FUNCTION, made.name)
    parameters = key.document(expected.name)["parameters"]
    for name in parameters["required"]:
        if name not in made.arguments:
            return Miss(Reason.MISSING, name)
    for name, value in made.arguments.items():
        if name not in parameters["properties"] or name not in expected.arguments:
            return Miss(Reason.UNEXPECTED, name)
        fault = fault_of(value, parameters["properties"][name], expected.arguments[name])
        if fault:
            return Miss(fault, name)
    for name, allowed in expected.arguments.items():
        if name not in made.arguments and not may_be_absent(allowed):
            return Miss(Reason.MISSING, name)
    return None
