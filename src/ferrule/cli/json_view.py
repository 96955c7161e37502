"""JSON for people and programs at once: indented, and with texts that are JSON already written as they stand."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import cast

from ferrule.core.json_text import dumps

_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Verbatim:
    """JSON text that is not to be read and printed again, because 1.0 and 1e3 must stay what they are."""

    json: str


def page(value: object) -> str:
    """The JSON text of a value over several lines."""
    return _encodable(_written(value, "\n"))


def line(value: object) -> str:
    """The JSON text of a value in one line."""
    return _encodable(dumps(value))


def _written(value: object, newline: str) -> str:
    inner = newline + "  "
    match value:
        case Verbatim(json):
            return json
        case dict() if value:
            items = cast("dict[str, object]", value).items()
            pairs = (dumps(key) + ": " + _written(item, inner) for key, item in items)
            return "{" + inner + f",{inner}".join(pairs) + newline + "}"
        case list() if value:
            entries = (_written(item, inner) for item in cast("list[object]", value))
            return "[" + inner + f",{inner}".join(entries) + newline + "]"
        case _:
            return dumps(value)


def _encodable(json: str) -> str:
    # Half of a surrogate pair has no UTF-8, but JSON has an escape for it; it can only stand inside a string.
    return _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", json)
