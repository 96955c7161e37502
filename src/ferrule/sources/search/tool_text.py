"""The text of a tool that a search reads: its name, its description, its parameters and their allowed values.

It knows nothing of the index. Names are divided into words, because a question says "list open orders" and a tool is
named `orders.listOpen`.

A schema can have a hundred times the words of the description. It is read breadth first, and only its first words
stand beside the description: what an argument is called says more about a tool than how a field deep inside one is
described. Otherwise a question for "the pods of a namespace" finds whatever describes pods at length. Of the rest only
the names and the allowed values are read, apart, where they count little.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from ferrule.core.tool import ToolDefinition

MAX_CHARACTERS = 20_000
"""How much of a tool's text is read. Definitions may come from strangers, and a long one must not slow others down."""
MAX_SCHEMA_WORDS = 60
"""How many words of a schema stand beside the description. A tool of a few arguments has fewer."""
_MAX_DEPTH = 8
_MAX_VALUES = 100
_SCHEMAS = ("items", "additionalProperties", "contains", "not")
_SCHEMA_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_SCHEMAS_BY_NAME = ("properties", "patternProperties", "$defs", "definitions")

_CASE_CHANGE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
# Languages that write no spaces: each character is a word.
_WITHOUT_SPACES = re.compile("([\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\U00020000-\U0002ffff])")


def divide_words(text: str) -> str:
    """Return a text with spaces between its words: `listOpen_orders` becomes `list Open orders`.

    Example:
        divide_words("orders.listOpen")  # "orders list Open"
    """
    return _WITHOUT_SPACES.sub(r" \1 ", _CASE_CHANGE.sub(" ", re.sub(r"[\W_]+", " ", text)))


@dataclass(frozen=True, slots=True)
class ToolText:
    """What a search reads of a tool, in three fields, each with spaces between its words."""

    name: str
    main: str
    """The name, the description and the first words of the schema."""
    values: str
    """The names and allowed values of the whole schema."""


def searchable_text(tool: ToolDefinition) -> ToolText:
    """Return all that a search reads of a tool."""
    texts = list(_first_characters(_schema_texts(tool.parameters)))
    schema = divide_words(" ".join(text for _, text in texts)).split()[:MAX_SCHEMA_WORDS]
    description = divide_words(f"{tool.name} {tool.description[:MAX_CHARACTERS]}")
    values = divide_words(" ".join(text for is_name, text in texts if is_name))
    return ToolText(divide_words(tool.name), f"{description} {' '.join(schema)}", values)


def _first_characters(texts: Iterable[tuple[bool, str]]) -> Iterator[tuple[bool, str]]:
    remaining = MAX_CHARACTERS
    for is_name, text in texts:
        yield is_name, text[:remaining]
        remaining -= len(text)
        if remaining <= 0:
            return


def _schema_texts(schema: object) -> Iterator[tuple[bool, str]]:
    """Yield the texts of a schema, the outermost first, and whether each is a parameter's name or an allowed value."""
    waiting: deque[tuple[object, int]] = deque([(schema, 0)])
    while waiting:
        found, depth = waiting.popleft()
        if not isinstance(found, Mapping) or depth > _MAX_DEPTH:
            continue
        fields = cast("Mapping[str, Any]", found)
        for keyword in ("title", "description"):
            if isinstance(fields.get(keyword), str):
                yield False, fields[keyword]
        values = fields.get("enum")
        allowed = cast("list[object]", values)[:_MAX_VALUES] if isinstance(values, list) else []
        yield from ((True, value) for value in (fields.get("const"), *allowed) if isinstance(value, str))
        for keyword in _SCHEMAS_BY_NAME:
            by_name = fields.get(keyword)
            if isinstance(by_name, Mapping):
                for name, inner in cast("Mapping[str, Any]", by_name).items():
                    yield True, name
                    waiting.append((inner, depth + 1))
        waiting.extend((fields[keyword], depth + 1) for keyword in _SCHEMAS if keyword in fields)
        for keyword in _SCHEMA_LISTS:
            inner_schemas = fields.get(keyword)
            if isinstance(inner_schemas, list):
                waiting.extend((inner, depth + 1) for inner in cast("list[object]", inner_schemas))
