"""On which line of a TOML file each thing stands. The parser of the standard library does not tell."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterator
from typing import Any, cast

Key = tuple[str | int, ...]


def lines_of(text: str) -> dict[Key, int]:
    """The line of every table, entry and value of a text that is TOML, by its keys and indexes."""
    lines: dict[Key, int] = {}
    under: Key = ()
    times: Counter[Key] = Counter()
    for line, statement in _statements(text):
        held = tomllib.loads(statement)
        if statement.lstrip().startswith("["):
            header, is_listed = _header(held)
            under = header
            if is_listed:
                under = (*header, times[header])
                times[header] += 1
            lines.setdefault(header, line)
            lines.setdefault(under, line)
        else:
            for key in _keys(held):
                lines.setdefault((*under, *key), line)
    return lines


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """Each header and each assignment, with the line that it begins on. A value may go over several lines."""
    begun, held = 0, ""
    for number, line in enumerate(text.splitlines(keepends=True), start=1):
        if not held and (not line.strip() or line.lstrip().startswith("#")):
            continue
        begun = begun if held else number
        held += line
        try:
            tomllib.loads(held)
        except tomllib.TOMLDecodeError:
            continue
        yield begun, held
        held = ""


def _header(held: dict[str, Any]) -> tuple[Key, bool]:
    key: list[str | int] = []
    inner: Any = held
    while isinstance(inner, dict) and inner:
        name, inner = next(iter(cast("dict[str, Any]", inner).items()))
        key.append(name)
    return tuple(key), isinstance(inner, list)


def _keys(held: object) -> Iterator[Key]:
    entries: Iterator[tuple[str | int, object]] = iter(())
    if isinstance(held, dict):
        entries = iter(cast("dict[str, object]", held).items())
    elif isinstance(held, list):
        entries = iter(enumerate(cast("list[object]", held)))
    for name, value in entries:
        yield (name,)
        for key in _keys(value):
            yield (name, *key)
