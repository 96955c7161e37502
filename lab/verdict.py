"""What an outcome says, in a form in which two of them are compared, and in words where they differ.

White space around the text is nobody's mistake; inside a value it is. Numbers are compared by value, so that 2 and 2.0
are one, but true is not 1. Knows nothing of who answered.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from lab.reply_variants import Calls

_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Said:
    """The text, and the calls with their arguments as canonical JSON."""

    text: str
    calls: tuple[tuple[str, str], ...]
    error: str = ""


def said(outcome: Mapping[str, Any]) -> Said:
    calls = tuple((call["name"], _canonical_text(call["arguments"])) for call in outcome["calls"])
    return Said(outcome["content"].strip(), calls, (outcome["error"] or "").partition(":")[0])


def meant(text: str, calls: Calls) -> Said:
    return Said(text.strip(), tuple((name, canonical(dict(arguments))) for name, arguments in calls))


def canonical(value: Any) -> str:
    return json.dumps(_plain(value), ensure_ascii=False, sort_keys=True)


def difference(wanted: Calls, outcome: Mapping[str, Any]) -> str:
    """In what the calls of an outcome are not those wanted; "" where they are."""
    if outcome["error"]:
        return f"raises {outcome['error'].partition(chr(10))[0][:_SHOWN]}"
    got = said(outcome).calls
    if len(got) != len(wanted):
        return f"{len(got)} calls of {len(wanted)}"
    for (name, arguments), call, (got_name, got_text) in zip(wanted, outcome["calls"], got, strict=True):
        if got_name != name:
            return f"name {got_name!r} instead of {name!r}"
        if got_text != canonical(dict(arguments)):
            return _argument_difference(arguments, call["arguments"])
    return ""


def _argument_difference(wanted: Mapping[str, Any], text: str) -> str:
    try:
        got: Any = json.loads(text)
    except ValueError:
        return f"arguments are not JSON: {_shortened(text)}"
    if not isinstance(got, dict):
        return f"arguments are {_shortened(canonical(got))}"
    fields = cast("dict[str, Any]", got)
    odd = [key for key in (*wanted, *fields) if canonical(fields.get(key)) != canonical(wanted.get(key))]
    missing = [key for key in odd if key not in fields]
    return f"no {missing[0]}" if missing else f"{odd[0]} is {_shortened(canonical(fields[odd[0]]))}"


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


def _shortened(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
