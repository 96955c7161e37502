"""Indented JSON output. Text that is already JSON can be included verbatim."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import cast

from ferrule.core.json_text import dumps

_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Verbatim:
    """JSON text to print unchanged: parsing and printing it would change numbers such as 1.0 and 1e3."""

    json: str


def page(value: object) -> str:
    """Format a value as JSON on several lines."""
    return _encodable(_format(value, "\n"))


def line(value: object) -> str:
    """Format a value as JSON on one line."""
    return _encodable(dumps(value))


def _format(value: object, newline: str) -> str:
    inner = newline + "  "
    match value:
        case Verbatim(json):
            return json
        case dict() if value:
            items = cast("dict[str, object]", value).items()
            pairs = (dumps(key) + ": " + _format(item, inner) for key, item in items)
            return "{" + inner + f",{inner}".join(pairs) + newline + "}"
        case list() if value:
            entries = (_format(item, inner) for item in cast("list[object]", value))
            return "[" + inner + f",{inner}".join(entries) + newline + "]"
        case _:
            return dumps(value)


def _encodable(json: str) -> str:
    # A lone surrogate has no UTF-8, but JSON has an escape for it. It can only occur inside a string.
    return _SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", json)
