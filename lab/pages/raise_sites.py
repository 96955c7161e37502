"""Where the code raises errors on purpose, read from its source: with which codes, and with which hints.

A code or a hint that is worked out while running is not seen, and is left out.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ferrule import errors
from ferrule.errors import FerruleError

SOURCE = Path(errors.__file__).parent
# A made-up input or a measurement is nothing that a user meets.
_UNSEEN = ("bench",)


@dataclass(frozen=True, slots=True)
class Raised:
    """One place that makes an error. `hint` has `...` where a value is filled in."""

    kind: type[FerruleError]
    code: str
    hint: str
    path: str


def kinds() -> Mapping[str, type[FerruleError]]:
    """Every error of the tree by its name, a parent before its children."""
    return {kind.__name__: kind for kind in _below(FerruleError)}


def all_raised() -> list[Raised]:
    """In the order of the files' names, and of the lines in them."""
    known = kinds()
    found: list[Raised] = []
    for path in sorted(SOURCE.rglob("*.py")):
        place = path.relative_to(SOURCE)
        if place.parts[0] not in _UNSEEN and path != Path(errors.__file__):
            found += _in_file(path, place.as_posix(), known)
    return found


def _below(kind: type[FerruleError]) -> Iterator[type[FerruleError]]:
    yield kind
    for child in kind.__subclasses__():
        # A program under test may have classes of its own.
        if child.__module__ == errors.__name__:
            yield from _below(child)


def _in_file(path: Path, place: str, known: Mapping[str, type[FerruleError]]) -> Iterator[Raised]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in known:
            given = {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
            kind = known[node.func.id]
            code = _text(given.get("code"), "")
            if code is not None:
                yield Raised(kind, code or kind.code, _text(given.get("hint"), "") or "", place)


def _text(node: ast.expr | None, absent: str) -> str | None:
    """What a literal says; None where only running the program would tell."""
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
