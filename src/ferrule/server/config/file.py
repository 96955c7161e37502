"""Read the settings of a ferrule.toml, each with its line number. Takes the text and opens no file.

`${NAME}` in a string is replaced from the environment; `${NAME:-default}` gives a default; `$${` is a literal `${`.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, cast

from ferrule.errors import DefinitionError
from ferrule.server.config.layers import ConfigProblem, LayerValue, SettingPath, format_path, suggest
from ferrule.server.config.tables import TABLES, Table

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


_VARIABLE = re.compile(r"\$\$\{|\$\{([^}]*)\}")
_NAME = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)


def parse_toml(
    text: str, name: str, environment: Mapping[str, str]
) -> tuple[dict[SettingPath, LayerValue], list[ConfigProblem]]:
    """Read the layer of the file and its structural problems. `name` is the file name for messages."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise DefinitionError(
            f"{name} is not TOML: {error}", code="bad_configuration", hint='Strings need quotes: host = "127.0.0.1".'
        ) from error
    reader = _Reader(name, lines_of(text), environment)
    for table, content in document.items():
        reader.read_table(table, content)
    return reader.values, reader.problems


class _Reader:
    def __init__(self, name: str, lines: Mapping[Key, int], environment: Mapping[str, str]) -> None:
        self.values: dict[SettingPath, LayerValue] = {}
        self.problems: list[ConfigProblem] = []
        self._name = name
        self._lines = lines
        self._environment = environment

    def read_table(self, name: str, content: object) -> None:
        table = TABLES.get(name)
        if table is None:
            owner = next((one.name for one in TABLES.values() if name in one.settings), "")
            remedy = f"It belongs in [{owner}]" if owner else suggest(name, TABLES, "tables")
            self._report((name,), f"{format_path((name,))} is not known", remedy)
        elif table.is_named:
            self._read_named(table, content)
        elif isinstance(content, dict):
            self._read_entries((name,), (name,), cast("dict[str, object]", content))
        else:
            self._report((name,), f"{name} is a table and not a value", f"Write [{name}] on its own line")

    def _read_named(self, table: Table, content: object) -> None:
        """Read one table per name: [engines.NAME], or [[keys]] with a name in each entry."""
        if isinstance(content, dict):
            for name, entries in cast("dict[str, object]", content).items():
                self._read_one(table, name, (table.name, name), entries)
            return
        if not isinstance(content, list):
            self._report((table.name,), f"{table.name} is not a list of tables", f"Write [{table.name}.NAME]")
            return
        keys_by_name: dict[str, Key] = {}
        for index, entries in enumerate(cast("list[object]", content)):
            key = (table.name, index)
            fields = dict(cast("dict[str, object]", entries)) if isinstance(entries, dict) else {}
            name = fields.pop("name", None)
            if not isinstance(name, str) or not name:
                self._report(key, f"an entry of {table.name} has no name", 'Write name = "..." in it')
            elif name in keys_by_name:
                self._report((*key, "name"), f"two entries of {table.name} are called {name!r}", "Rename one")
            else:
                keys_by_name[name] = key
                self._read_one(table, name, key, fields)

    def _read_one(self, table: Table, name: str, key: Key, entries: object) -> None:
        if isinstance(entries, dict):
            # Recorded so that a table without entries exists and its missing settings are reported.
            self.values[table.name, name] = LayerValue(name, self._origin(key))
            self._read_entries((table.name, name), key, cast("dict[str, object]", entries))
        else:
            message = f"{format_path((table.name, name))} is a table and not a value"
            self._report(key, message, f"Write [{format_path((table.name, name))}] and its settings under it")

    def _read_entries(self, path: SettingPath, key: Key, entries: Mapping[str, object]) -> None:
        for name, value in entries.items():
            self.values[(*path, name)] = self._expand_value((*path, name), (*key, name), value)

    def _expand_value(self, path: SettingPath, key: Key, value: object) -> LayerValue:
        origin, problem_count = self._origin(key), len(self.problems)
        expanded, is_text = value, False
        if isinstance(value, str):
            # Numbers may come from the environment too: port = "${PORT}".
            expanded, is_text = self._expand_text(path, origin, value), "${" in value.replace("$${", "")
        elif isinstance(value, list):
            entries = cast("list[Any]", value)
            expanded = [self._expand_text(path, origin, one) if isinstance(one, str) else one for one in entries]
        return LayerValue(expanded, origin, is_text, is_invalid=len(self.problems) > problem_count)

    def _expand_text(self, path: SettingPath, origin: str, text: str) -> str:
        def substitute(match: re.Match[str]) -> str:
            if match[0] == "$${":
                return "${"
            variable = _NAME.fullmatch(match[1])
            if variable is None:
                message = f"{format_path(path)} contains ${{{match[1]}}}, which is not a variable name"
                self.problems.append(
                    ConfigProblem(origin, message, "Write ${NAME}, or $${ for the characters themselves")
                )
                return ""
            name, default = variable[1], cast("str | None", variable[2])
            value = self._environment.get(name, default)
            if value is None:
                message = f"{format_path(path)} needs the environment variable {name}, which is not set"
                self.problems.append(ConfigProblem(origin, message, f"Set it, or write ${{{name}:-default}}"))
                return ""
            return value

        return _VARIABLE.sub(substitute, text)

    def _origin(self, key: Key) -> str:
        line = self._lines.get(key)
        return f"{self._name} line {line}" if line else self._name

    def _report(self, key: Key, message: str, remedy: str) -> None:
        self.problems.append(ConfigProblem(self._origin(key), message, remedy))
