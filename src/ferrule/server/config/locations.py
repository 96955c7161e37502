"""Find the line of each table and key in a TOML file. The parser of the standard library does not report lines."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterator
from typing import Any, cast

Key = tuple[str | int, ...]


def lines_of(text: str) -> dict[Key, int]:
    """The line of every table, entry and value of a valid TOML text, by keys and indexes."""
    lines: dict[Key, int] = {}
    prefix: Key = ()
    counts: Counter[Key] = Counter()
    for line, statement in _statements(text):
        table = tomllib.loads(statement)
        if statement.lstrip().startswith("["):
            header, is_listed = _header(table)
            prefix = header
            if is_listed:
                prefix = (*header, counts[header])
                counts[header] += 1
            lines.setdefault(header, line)
            lines.setdefault(prefix, line)
        else:
            for key in _keys(table):
                lines.setdefault((*prefix, *key), line)
    return lines


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """Yield each header and assignment with its first line. A value may span several lines, so try until it parses."""
    first_line, statement = 0, ""
    for number, line in enumerate(text.splitlines(keepends=True), start=1):
        if not statement and (not line.strip() or line.lstrip().startswith("#")):
            continue
        first_line = first_line if statement else number
        statement += line
        try:
            tomllib.loads(statement)
        except tomllib.TOMLDecodeError:
            continue
        yield first_line, statement
        statement = ""


def _header(table: dict[str, Any]) -> tuple[Key, bool]:
    key: list[str | int] = []
    inner: Any = table
    while isinstance(inner, dict) and inner:
        name, inner = next(iter(cast("dict[str, Any]", inner).items()))
        key.append(name)
    return tuple(key), isinstance(inner, list)


def _keys(value: object) -> Iterator[Key]:
    entries: Iterator[tuple[str | int, object]] = iter(())
    if isinstance(value, dict):
        entries = iter(cast("dict[str, object]", value).items())
    elif isinstance(value, list):
        entries = iter(enumerate(cast("list[object]", value)))
    for name, child in entries:
        yield (name,)
        for key in _keys(child):
            yield (name, *key)
