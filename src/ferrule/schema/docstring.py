"""What a docstring says: the description, and a text for each parameter. Google, NumPy and Sphinx styles.

Total: any text is read, and what fits no style is description. Must not know signatures or schemas.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

_PARAMETER_SECTIONS = frozenset(
    ("args", "arguments", "parameters", "params", "other parameters", "keyword args", "keyword arguments", "attributes")
)
_OTHER_SECTIONS = frozenset(
    (
        "returns", "return", "yields", "yield", "receives", "raises", "warns", "warnings", "note", "notes", "example",
        "examples", "see also", "references", "todo", "methods",
    )
)  # fmt: skip
_GOOGLE_HEADER = re.compile(r"([A-Za-z ]+):\s*")
_GOOGLE_ENTRY = re.compile(r"\*{0,2}(\w+)\s*(?:\(.*?\))?\s*:(?:\s+(.*)|)$")
_NUMPY_ENTRY = re.compile(r"(\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?$")
_SPHINX_FIELD = re.compile(r":(\w+)(?:\s+([^:]*?))?:(?:\s+(.*)|)$")
_SPHINX_PARAMETERS = frozenset(("param", "parameter", "arg", "argument", "key", "keyword"))


@dataclass(frozen=True, slots=True)
class Documented:
    """The text before any section, and the text of each parameter on one line."""

    description: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class _Section:
    title: str
    is_numpy: bool
    lines: tuple[str, ...]


def read_docstring(text: str | None) -> Documented:
    """The parts of a docstring. None and empty texts give empty parts."""
    if not text:
        return Documented()
    lines, found = _without_fields(inspect.cleandoc(text).splitlines())
    sections = list(_sections(lines))
    for section in sections:
        if section.title in _PARAMETER_SECTIONS:
            entries = _numpy_entries if section.is_numpy else _google_entries
            for name, words in entries(section.lines):
                found.setdefault(name, words)
    description = "\n".join(sections[0].lines).strip()
    return Documented(description, {name: words for name, words in found.items() if words})


def _sections(lines: list[str]) -> Iterator[_Section]:
    """The text cut at its headers; the first section has no title."""
    title, is_numpy, held = "", False, list[str]()
    skip_underline = False
    for index, line in enumerate(lines):
        if skip_underline:
            skip_underline = False
            continue
        underline = lines[index + 1] if index + 1 < len(lines) else ""
        header = _header(line, underline)
        if header is None:
            held.append(line)
            continue
        yield _Section(title, is_numpy, tuple(held))
        title, is_numpy = header
        skip_underline = is_numpy
        held = []
    yield _Section(title, is_numpy, tuple(held))


def _header(line: str, underline: str) -> tuple[str, bool] | None:
    title = line.strip().lower()
    if title in _PARAMETER_SECTIONS | _OTHER_SECTIONS and re.fullmatch(r"\s*-{3,}\s*", underline):
        return title, True
    google = _GOOGLE_HEADER.fullmatch(line)
    if google is not None and google[1].lower() in _PARAMETER_SECTIONS | _OTHER_SECTIONS:
        return google[1].lower(), False
    return None


def _google_entries(lines: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """`name (type): words`, continued on lines that are indented further than the name."""
    indents = [_indent(line) for line in lines if line.strip()]
    outer = min(indents, default=0)
    name, words = "", list[str]()
    for line in lines:
        entry = _GOOGLE_ENTRY.fullmatch(line.strip()) if _indent(line) == outer else None
        if entry is not None and line.strip():
            if name:
                yield name, _joined(words)
            name, words = entry[1], [entry[2] or ""]
        else:
            words.append(line)
    if name:
        yield name, _joined(words)


def _numpy_entries(lines: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """`name : type` at the margin, or several names with commas; the words stand indented below."""
    names, words = list[str](), list[str]()
    for line in lines:
        entry = _NUMPY_ENTRY.fullmatch(line) if line.strip() and _indent(line) == 0 else None
        if entry is None:
            words.append(line)
            continue
        yield from ((name, _joined(words)) for name in names)
        names, words = [name.strip(" *") for name in entry[1].split(",")], []
    yield from ((name, _joined(words)) for name in names)


def _without_fields(lines: list[str]) -> tuple[list[str], dict[str, str]]:
    """The lines without Sphinx fields, and the texts of those that document parameters."""
    kept, found, current = list[str](), dict[str, list[str]](), list[str]()
    in_field = False
    for line in lines:
        entry = _SPHINX_FIELD.fullmatch(line)
        if entry is not None:
            in_field = True
            current = [entry[3] or ""]
            if entry[1] in _SPHINX_PARAMETERS and entry[2]:
                found[entry[2].split()[-1].lstrip("*")] = current
        elif in_field and (_indent(line) > 0 or not line.strip()):
            current.append(line)
        else:
            in_field = False
            kept.append(line)
    return kept, {name: _joined(words) for name, words in found.items()}


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _joined(lines: list[str]) -> str:
    return " ".join(" ".join(lines).split())
