"""Parse a docstring into its description and a text for each parameter. Google, NumPy and Sphinx styles.

Parsing never fails: text in no known style is description. This module does not depend on signatures or schemas.
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
class DocstringParts:
    """The text before the first section, and the text of each parameter on one line."""

    description: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class _Section:
    title: str
    is_numpy: bool
    lines: tuple[str, ...]


def read_docstring(text: str | None) -> DocstringParts:
    """Parse a docstring. None and empty texts give empty parts."""
    if not text:
        return DocstringParts()
    lines, parameters = _split_fields(inspect.cleandoc(text).splitlines())
    sections = list(_sections(lines))
    for section in sections:
        if section.title in _PARAMETER_SECTIONS:
            entries = _numpy_entries if section.is_numpy else _google_entries
            for name, parameter_text in entries(section.lines):
                parameters.setdefault(name, parameter_text)
    description = "\n".join(sections[0].lines).strip()
    return DocstringParts(
        description, {name: parameter_text for name, parameter_text in parameters.items() if parameter_text}
    )


def _sections(lines: list[str]) -> Iterator[_Section]:
    """The text split at its headers; the first section has no title."""
    title, is_numpy, section_lines = "", False, list[str]()
    skip_underline = False
    for index, line in enumerate(lines):
        if skip_underline:
            skip_underline = False
            continue
        underline = lines[index + 1] if index + 1 < len(lines) else ""
        header = _header(line, underline)
        if header is None:
            section_lines.append(line)
            continue
        yield _Section(title, is_numpy, tuple(section_lines))
        title, is_numpy = header
        skip_underline = is_numpy
        section_lines = []
    yield _Section(title, is_numpy, tuple(section_lines))


def _header(line: str, underline: str) -> tuple[str, bool] | None:
    title = line.strip().lower()
    if title in _PARAMETER_SECTIONS | _OTHER_SECTIONS and re.fullmatch(r"\s*-{3,}\s*", underline):
        return title, True
    google = _GOOGLE_HEADER.fullmatch(line)
    if google is not None and google[1].lower() in _PARAMETER_SECTIONS | _OTHER_SECTIONS:
        return google[1].lower(), False
    return None


def _google_entries(lines: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Entries of the form `name (type): text`, continued on lines that are indented further than the name."""
    indents = [_indent(line) for line in lines if line.strip()]
    outer = min(indents, default=0)
    name, text_lines = "", list[str]()
    for line in lines:
        entry = _GOOGLE_ENTRY.fullmatch(line.strip()) if _indent(line) == outer else None
        if entry is not None and line.strip():
            if name:
                yield name, _join_lines(text_lines)
            name, text_lines = entry[1], [entry[2] or ""]
        else:
            text_lines.append(line)
    if name:
        yield name, _join_lines(text_lines)


def _numpy_entries(lines: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Entries of the form `name : type`, or several names with commas, with the text indented below."""
    names, text_lines = list[str](), list[str]()
    for line in lines:
        entry = _NUMPY_ENTRY.fullmatch(line) if line.strip() and _indent(line) == 0 else None
        if entry is None:
            text_lines.append(line)
            continue
        yield from ((name, _join_lines(text_lines)) for name in names)
        names, text_lines = [name.strip(" *") for name in entry[1].split(",")], []
    yield from ((name, _join_lines(text_lines)) for name in names)


def _split_fields(lines: list[str]) -> tuple[list[str], dict[str, str]]:
    """The lines without Sphinx fields, and the texts of those that document parameters."""
    other_lines, parameters, current = list[str](), dict[str, list[str]](), list[str]()
    in_field = False
    for line in lines:
        entry = _SPHINX_FIELD.fullmatch(line)
        if entry is not None:
            in_field = True
            current = [entry[3] or ""]
            if entry[1] in _SPHINX_PARAMETERS and entry[2]:
                parameters[entry[2].split()[-1].lstrip("*")] = current
        elif in_field and (_indent(line) > 0 or not line.strip()):
            current.append(line)
        else:
            in_field = False
            other_lines.append(line)
    return other_lines, {name: _join_lines(text_lines) for name, text_lines in parameters.items()}


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _join_lines(lines: list[str]) -> str:
    return " ".join(" ".join(lines).split())
