"""Convert outcomes to a canonical form, compare them, and describe differences.

White space around the text is ignored; inside a value it counts. Numbers are compared by value: 2 equals 2.0, but true
does not equal 1. Independent of the parser that produced the outcome.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from lab.reply_variants import Calls

_MAX_CHARACTERS = 60


@dataclass(frozen=True, slots=True)
class CanonicalReply:
    """The text, and the calls with their arguments as canonical JSON."""

    text: str
    calls: tuple[tuple[str, str], ...]
    error: str = ""


def canonical_outcome(outcome: Mapping[str, Any]) -> CanonicalReply:
    calls = tuple((call["name"], _canonical_text(call["arguments"])) for call in outcome["calls"])
    return CanonicalReply(outcome["content"].strip(), calls, (outcome["error"] or "").partition(":")[0])


def expected_reply(text: str, calls: Calls) -> CanonicalReply:
    return CanonicalReply(text.strip(), tuple((name, canonical(dict(arguments))) for name, arguments in calls))


def canonical(value: Any) -> str:
    return json.dumps(_plain(value), ensure_ascii=False, sort_keys=True)


def difference(expected: Calls, outcome: Mapping[str, Any]) -> str:
    """How the calls of an outcome differ from the expected calls; "" if they are equal."""
    if outcome["error"]:
        return f"raises {outcome['error'].partition(chr(10))[0][:_MAX_CHARACTERS]}"
    actual = canonical_outcome(outcome).calls
    if len(actual) != len(expected):
        return f"{len(actual)} calls of {len(expected)}"
    for (name, arguments), call, (got_name, got_text) in zip(expected, outcome["calls"], actual, strict=True):
        if got_name != name:
            return f"name {got_name!r} instead of {name!r}"
        if got_text != canonical(dict(arguments)):
            return _argument_difference(arguments, call["arguments"])
    return ""


def _argument_difference(expected: Mapping[str, Any], text: str) -> str:
    try:
        actual: Any = json.loads(text)
    except ValueError:
        return f"arguments are not JSON: {_shorten(text)}"
    if not isinstance(actual, dict):
        return f"arguments are {_shorten(canonical(actual))}"
    fields = cast("dict[str, Any]", actual)
    odd = [key for key in (*expected, *fields) if canonical(fields.get(key)) != canonical(expected.get(key))]
    missing = [key for key in odd if key not in fields]
    return f"no {missing[0]}" if missing else f"{odd[0]} is {_shorten(canonical(fields[odd[0]]))}"


def _canonical_text(text: str) -> str:
    try:
        return canonical(json.loads(text))
    except ValueError:
        return f"not JSON: {text}"


def _plain(value: Any) -> Any:
    match value:
        case float() if value.is_integer():
            return int(value)
        case dict():
            return {key: _plain(inner) for key, inner in cast("dict[str, Any]", value).items()}
        case list() | tuple():
            return [_plain(inner) for inner in cast("Sequence[Any]", value)]
        case _:
            return value


def _shorten(text: str) -> str:
    return text if len(text) <= _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS]}..."
