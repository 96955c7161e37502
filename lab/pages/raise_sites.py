"""Find where the code raises errors, with which codes and hints, by parsing its source.

Codes and hints that are computed at run time are not found.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ferrule import errors
from ferrule.errors import FerruleError

SOURCE = Path(errors.__file__).parent
# Users do not meet errors of test helpers and measurements.
_UNSEEN = ("bench",)


@dataclass(frozen=True, slots=True)
class RaiseSite:
    """One place that raises an error. `hint` has `...` where a value is filled in."""

    kind: type[FerruleError]
    code: str
    hint: str
    path: str


def kinds() -> Mapping[str, type[FerruleError]]:
    """Every error of the tree by its name, a parent before its children."""
    return {kind.__name__: kind for kind in _below(FerruleError)}


def raise_sites() -> list[RaiseSite]:
    """All raise sites, ordered by file name and line."""
    error_classes = kinds()
    sites: list[RaiseSite] = []
    for path in sorted(SOURCE.rglob("*.py")):
        place = path.relative_to(SOURCE)
        if place.parts[0] not in _UNSEEN and path != Path(errors.__file__):
            sites += _in_file(path, place.as_posix(), error_classes)
    return sites


def _below(kind: type[FerruleError]) -> Iterator[type[FerruleError]]:
    yield kind
    for child in kind.__subclasses__():
        # A program under test may have classes of its own.
        if child.__module__ == errors.__name__:
            yield from _below(child)


def _in_file(path: Path, place: str, error_classes: Mapping[str, type[FerruleError]]) -> Iterator[RaiseSite]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in error_classes:
            keywords = {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
            kind = error_classes[node.func.id]
            code = _text(keywords.get("code"), "")
            if code is not None:
                yield RaiseSite(kind, code or kind.code, _text(keywords.get("hint"), "") or "", place)


def _text(node: ast.expr | None, absent: str) -> str | None:
    """The text of a literal; None if it is only known at run time."""
    match node:
        case None:
            return absent
        case ast.Constant(str(value)):
            return value
        case ast.JoinedStr(parts):
            return "".join(_text(part, "") or "..." for part in parts)
        case ast.FormattedValue():
            return "..."
        case _:
            return None
