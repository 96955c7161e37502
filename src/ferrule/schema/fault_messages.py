"""What is wrong with a value, in words that a model can act on: a table from the failed keyword to a sentence.

Takes what the validator found as plain data (`Finding`), so that nothing here knows which validator it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from ferrule.core.fault import Fault
from ferrule.core.json_text import dumps
from ferrule.schema.value_decoder import type_name

_SHOWN = 60
_LISTED = 10
_SUMMARISED = 3
_LONGEST = 200
_LONGEST_WORDS = 800


@dataclass(frozen=True, slots=True)
class Finding:
    """One failed keyword: the value there, what the keyword asked for, and for alternatives the findings of each."""

    path: str
    keyword: str
    value: object
    asked: object
    message: str
    known: tuple[str, ...] = ()
    branches: tuple[tuple[Finding, ...], ...] = ()


def fault_of(finding: Finding) -> Fault:
    say = _WORDS.get(finding.keyword)
    words = _cut(finding.message, _LONGEST) if say is None else _cut(say(finding), _LONGEST_WORDS)
    return Fault(finding.path, finding.keyword, words)


def shown(value: object) -> str:
    """A value short enough to quote."""
    return _cut(dumps(value), _SHOWN)


def _cut(text: str, size: int) -> str:
    return text if len(text) <= size else text[: size - 3] + "..."


def _got(finding: Finding) -> str:
    return f"got {shown(finding.value)} ({type_name(finding.value)})"


def _listed(values: Sequence[object], how: Callable[[object], str] = shown) -> str:
    more = f" and {len(values) - _LISTED} more" if len(values) > _LISTED else ""
    return ", ".join(how(value) for value in values[:_LISTED]) + more


_ARTICLES = {"integer": "an integer", "array": "an array", "object": "an object", "null": "null"}


def _typed(names: Sequence[str]) -> str:
    return " or ".join(_ARTICLES.get(name, f"a {name}") for name in names)


def _type(finding: Finding) -> str:
    return f"must be {_typed(cast('list[str]', finding.asked))}, {_got(finding)}"


def _required(finding: Finding) -> str:
    return f"missing required property {shown(finding.asked)}"


def _enum(finding: Finding) -> str:
    return f"must be one of {_listed(cast('list[object]', finding.asked))}; {_got(finding)}"


def _const(finding: Finding) -> str:
    return f"must be {shown(finding.asked)}, {_got(finding)}"


def _unknown(finding: Finding) -> str:
    names = cast("list[object]", finding.asked)
    what = "unknown property" if len(names) == 1 else "unknown properties"
    known = f"; known: {_listed(finding.known)}" if finding.known else "; no property is known here"
    return f"{what} {_listed(names)}{known}"


def _bound(words: str) -> Callable[[Finding], str]:
    def say(finding: Finding) -> str:
        return f"must be {words} {shown(finding.asked)}, got {shown(finding.value)}"

    return say


def _counted(words: str, unit: str) -> Callable[[Finding], str]:
    def say(finding: Finding) -> str:
        units = unit if finding.asked == 1 else {"property": "properties"}.get(unit, unit + "s")
        size = len(cast("str | list[object]", finding.value))
        return f"must have {words} {finding.asked} {units}, has {size}"

    return say


def _pattern(finding: Finding) -> str:
    return f"must match the pattern {_cut(str(finding.asked), 100)}, {_got(finding)}"


def _format(finding: Finding) -> str:
    example = _EXAMPLES.get(str(finding.asked))
    such_as = f" such as {example}" if example else ""
    return f"must be a valid {finding.asked}{such_as}, {_got(finding)}"


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


def _false(finding: Finding) -> str:
    return f"nothing is allowed here, {_got(finding)}"


def _unique(finding: Finding) -> str:
    return "must not hold the same item twice"


def _not(finding: Finding) -> str:
    return f"must not fit {shown(finding.asked)}, {_got(finding)}"


def _names(finding: Finding) -> str:
    return f"has a property whose name is not allowed: {_cut(finding.message, _LONGEST)}"


def _any_of(finding: Finding) -> str:
    merged = _merged([branch[0] for branch in finding.branches if len(branch) == 1], finding)
    if merged:
        return merged
    number, closest = min(enumerate(finding.branches, start=1), key=lambda pair: _distance(finding, pair[1]))
    why = "; ".join(str(fault_of(inner)) for inner in closest[:_SUMMARISED])
    more = f" (and {len(closest) - _SUMMARISED} more)" if len(closest) > _SUMMARISED else ""
    return f"fits none of the {len(finding.branches)} alternatives; closest is number {number}: {why}{more}"


def _merged(flat: list[Finding], finding: Finding) -> str:
    """One sentence where every alternative fails at one place, and all at the same; empty where they do not."""
    if len(flat) != len(finding.branches) or len({inner.path for inner in flat}) != 1:
        return ""
    where = "" if flat[0].path == finding.path else f"{flat[0].path}: "
    keywords = {inner.keyword for inner in flat}
    if keywords == {"type"}:
        names = [name for inner in flat for name in cast("list[str]", inner.asked)]
        return f"{where}must be {_typed(list(dict.fromkeys(names)))}, {_got(flat[0])}"
    if keywords <= {"const", "enum"}:
        values = [value for inner in flat for value in _values(inner)]
        return f"{where}must be one of {_listed(values)}; {_got(flat[0])}"
    return ""


def _values(finding: Finding) -> list[object]:
    return cast("list[object]", finding.asked) if finding.keyword == "enum" else [finding.asked]


def _distance(finding: Finding, branch: Sequence[Finding]) -> tuple[int, int, int]:
    """Least first: a branch for another type or another constant is far, one with few things wrong inside is near."""
    here = [inner for inner in branch if inner.path == finding.path and inner.keyword == "type"]
    constants = [inner for inner in branch if inner.keyword in ("const", "enum")]
    return len(here), len(constants), len(branch)


def _one_of(finding: Finding) -> str:
    if not finding.branches or any(not branch for branch in finding.branches):
        return f"fits more than one of the alternatives where exactly one must fit, {_got(finding)}"
    return _any_of(finding)


_WORDS: Mapping[str, Callable[[Finding], str]] = {
    "type": _type,
    "required": _required,
    "enum": _enum,
    "const": _const,
    "additionalProperties": _unknown,
    "unevaluatedProperties": _unknown,
    "minimum": _bound("at least"),
    "maximum": _bound("at most"),
    "exclusiveMinimum": _bound("more than"),
    "exclusiveMaximum": _bound("less than"),
    "multipleOf": _bound("a multiple of"),
    "minLength": _counted("at least", "character"),
    "maxLength": _counted("at most", "character"),
    "minItems": _counted("at least", "item"),
    "maxItems": _counted("at most", "item"),
    "minProperties": _counted("at least", "property"),
    "maxProperties": _counted("at most", "property"),
    "pattern": _pattern,
    "format": _format,
    "falseSchema": _false,
    "uniqueItems": _unique,
    "not": _not,
    "propertyNames": _names,
    "anyOf": _any_of,
    "oneOf": _one_of,
}
