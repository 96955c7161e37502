"""Claims: what may be said of a call that was written under a rule, keyword by keyword. What a receipt is made from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

from ferrule.core.json_text import dumps, loads
from ferrule.core.tool import ToolDefinition
from ferrule.rules.relaxation import losses_of
from ferrule.schema.keywords import children
from ferrule.schema.target_limits import CHECKED_FORMATS, TELLING_KEYWORDS

# They describe what is inside a string, and no validator opens it.
_ABOUT_CONTENT = frozenset({"contentEncoding", "contentMediaType", "contentSchema"})
_CACHED = 1_024


@dataclass(frozen=True, slots=True)
class Claims:
    """Every keyword that a schema uses to say something, in exactly one of three lists."""

    enforced: tuple[str, ...] = ()
    checked: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()


def claims_of(tool: ToolDefinition, encoding: str | None) -> Claims:
    """What holds of a call to the tool. `encoding` is how its arguments are held while decoding; None is not at all."""
    return _claims(tool.name, dumps(tool.parameters), encoding)


@lru_cache(maxsize=_CACHED)
def _claims(name: str, schema: str, encoding: str | None) -> Claims:
    parameters = cast("dict[str, Any]", loads(schema))
    used, unchecked = _used(parameters)
    if encoding is None:
        return Claims((), tuple(sorted(used)), tuple(sorted(unchecked)))
    lost = {loss.keyword for loss in losses_of(ToolDefinition(name, "", parameters), encoding)}
    # A keyword that is lost in one place is not claimed in any.
    return Claims(tuple(sorted(used - lost)), tuple(sorted(used & lost)), tuple(sorted(unchecked)))


def _used(schema: Mapping[str, Any]) -> tuple[set[str], set[str]]:
    used: set[str] = set()
    unchecked: set[str] = set()
    for node in _nodes(schema):
        for keyword, value in node.items():
            if keyword == "format" and value not in CHECKED_FORMATS:
                unchecked.add(f"format:{value}")
            elif keyword in _ABOUT_CONTENT:
                unchecked.add(keyword)
            elif keyword in TELLING_KEYWORDS and not (keyword == "uniqueItems" and value is False):
                used.add(keyword)
    return used, unchecked


def _nodes(schema: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(schema, dict):
        held = cast("dict[str, Any]", schema)
        yield held
        for child in children(held):
            yield from _nodes(child.schema)
