"""Messages for values that do not fit, written so that a model can correct them: one function for each keyword.

The input is plain data (`KeywordFailure`), so this module does not depend on the validator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from ferrule.core.fault import Fault
from ferrule.core.json_text import dumps
from ferrule.schema.value_decoder import type_name

_MAX_PREVIEW = 60
_MAX_VALUES = 10
_MAX_REASONS = 3
_MAX_VALIDATOR_MESSAGE = 200
_MAX_MESSAGE = 800


@dataclass(frozen=True, slots=True)
class KeywordFailure:
    """One failed keyword: the value, what the keyword expects, and for alternatives the failures of each one."""

    path: str
    keyword: str
    value: object
    expected: object
    message: str
    known_properties: tuple[str, ...] = ()
    branches: tuple[tuple[KeywordFailure, ...], ...] = ()


def fault_of(failure: KeywordFailure) -> Fault:
    """The fault for a failed keyword. A keyword without its own message keeps the validator's, shortened."""
    describe = _MESSAGES.get(failure.keyword)
    message = (
        _truncate(failure.message, _MAX_VALIDATOR_MESSAGE)
        if describe is None
        else _truncate(describe(failure), _MAX_MESSAGE)
    )
    return Fault(failure.path, failure.keyword, message)


def preview(value: object) -> str:
    """A value as JSON, shortened for a message."""
    return _truncate(dumps(value), _MAX_PREVIEW)


def _truncate(text: str, size: int) -> str:
    return text if len(text) <= size else text[: size - 3] + "..."


def _got(failure: KeywordFailure) -> str:
    return f"got {preview(failure.value)} ({type_name(failure.value)})"


def _join_values(values: Sequence[object], preview_value: Callable[[object], str] = preview) -> str:
    more = f" and {len(values) - _MAX_VALUES} more" if len(values) > _MAX_VALUES else ""
    return ", ".join(preview_value(value) for value in values[:_MAX_VALUES]) + more


_ARTICLES = {"integer": "an integer", "array": "an array", "object": "an object", "null": "null"}


def _join_types(names: Sequence[str]) -> str:
    return " or ".join(_ARTICLES.get(name, f"a {name}") for name in names)


def _type(failure: KeywordFailure) -> str:
    return f"must be {_join_types(cast('list[str]', failure.expected))}, {_got(failure)}"


def _missing_property(failure: KeywordFailure) -> str:
    return f"missing required property {preview(failure.expected)}"


def _enum(failure: KeywordFailure) -> str:
    return f"must be one of {_join_values(cast('list[object]', failure.expected))}; {_got(failure)}"


def _const(failure: KeywordFailure) -> str:
    return f"must be {preview(failure.expected)}, {_got(failure)}"


def _unknown(failure: KeywordFailure) -> str:
    names = cast("list[object]", failure.expected)
    label = "unknown property" if len(names) == 1 else "unknown properties"
    known_list = (
        f"; known: {_join_values(failure.known_properties)}"
        if failure.known_properties
        else "; no property is known here"
    )
    return f"{label} {_join_values(names)}{known_list}"


def _bound(comparison: str) -> Callable[[KeywordFailure], str]:
    def describe(failure: KeywordFailure) -> str:
        return f"must be {comparison} {preview(failure.expected)}, got {preview(failure.value)}"

    return describe


def _size(comparison: str, unit: str) -> Callable[[KeywordFailure], str]:
    def describe(failure: KeywordFailure) -> str:
        units = unit if failure.expected == 1 else {"property": "properties"}.get(unit, unit + "s")
        size = len(cast("str | list[object]", failure.value))
        return f"must have {comparison} {failure.expected} {units}, has {size}"

    return describe


def _pattern(failure: KeywordFailure) -> str:
    return f"must match the pattern {_truncate(str(failure.expected), 100)}, {_got(failure)}"


def _format(failure: KeywordFailure) -> str:
    example = _EXAMPLES.get(str(failure.expected))
    suggestion = f" such as {example}" if example else ""
    return f"must be a valid {failure.expected}{suggestion}, {_got(failure)}"


_EXAMPLES = {
    "date": '"2026-01-31"',
    "time": '"13:45:00Z"',
    "date-time": '"2026-01-31T13:45:00Z"',
    "duration": '"PT15M"',
    "email": '"name@example.com"',
    "uri": '"https://example.com/page"',
    "uuid": '"123e4567-e89b-12d3-a456-426614174000"',
    "ipv4": '"192.0.2.1"',
}


def _false(failure: KeywordFailure) -> str:
    return f"nothing is allowed here, {_got(failure)}"


def _unique(failure: KeywordFailure) -> str:
    return "must not hold the same item twice"


def _not(failure: KeywordFailure) -> str:
    return f"must not fit {preview(failure.expected)}, {_got(failure)}"


def _names(failure: KeywordFailure) -> str:
    return f"has a property whose name is not allowed: {_truncate(failure.message, _MAX_VALIDATOR_MESSAGE)}"


def _any_of(failure: KeywordFailure) -> str:
    single_message = _merge_alternatives([branch[0] for branch in failure.branches if len(branch) == 1], failure)
    if single_message:
        return single_message
    number, closest = min(enumerate(failure.branches, start=1), key=lambda pair: _distance(failure, pair[1]))
    reasons = "; ".join(str(fault_of(inner)) for inner in closest[:_MAX_REASONS])
    more = f" (and {len(closest) - _MAX_REASONS} more)" if len(closest) > _MAX_REASONS else ""
    return f"fits none of the {len(failure.branches)} alternatives; closest is number {number}: {reasons}{more}"


def _merge_alternatives(failures: list[KeywordFailure], failure: KeywordFailure) -> str:
    """One message if every alternative has exactly one failure and all are at the same path; otherwise ""."""
    if len(failures) != len(failure.branches) or len({inner.path for inner in failures}) != 1:
        return ""
    where = "" if failures[0].path == failure.path else f"{failures[0].path}: "
    keywords = {inner.keyword for inner in failures}
    if keywords == {"type"}:
        names = [name for inner in failures for name in cast("list[str]", inner.expected)]
        return f"{where}must be {_join_types(list(dict.fromkeys(names)))}, {_got(failures[0])}"
    if keywords <= {"const", "enum"}:
        values = [value for inner in failures for value in _values(inner)]
        return f"{where}must be one of {_join_values(values)}; {_got(failures[0])}"
    return ""


def _values(failure: KeywordFailure) -> list[object]:
    return cast("list[object]", failure.expected) if failure.keyword == "enum" else [failure.expected]


def _distance(failure: KeywordFailure, branch: Sequence[KeywordFailure]) -> tuple[int, int, int]:
    """A sort key, closest first: another type or constant makes a branch distant, few failures make it close."""
    type_failures = [inner for inner in branch if inner.path == failure.path and inner.keyword == "type"]
    constants = [inner for inner in branch if inner.keyword in ("const", "enum")]
    return len(type_failures), len(constants), len(branch)


def _one_of(failure: KeywordFailure) -> str:
    if not failure.branches or any(not branch for branch in failure.branches):
        return f"fits more than one of the alternatives where exactly one must fit, {_got(failure)}"
    return _any_of(failure)


_MESSAGES: Mapping[str, Callable[[KeywordFailure], str]] = {
    "type": _type,
    "required": _missing_property,
    "enum": _enum,
    "const": _const,
    "additionalProperties": _unknown,
    "unevaluatedProperties": _unknown,
    "minimum": _bound("at least"),
    "maximum": _bound("at most"),
    "exclusiveMinimum": _bound("more than"),
    "exclusiveMaximum": _bound("less than"),
    "multipleOf": _bound("a multiple of"),
    "minLength": _size("at least", "character"),
    "maxLength": _size("at most", "character"),
    "minItems": _size("at least", "item"),
    "maxItems": _size("at most", "item"),
    "minProperties": _size("at least", "property"),
    "maxProperties": _size("at most", "property"),
    "pattern": _pattern,
    "format": _format,
    "falseSchema": _false,
    "uniqueItems": _unique,
    "not": _not,
    "propertyNames": _names,
    "anyOf": _any_of,
    "oneOf": _one_of,
}
