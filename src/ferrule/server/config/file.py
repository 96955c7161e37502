"""ferrule.toml as a layer of what was given, each value with its line. Opens no file: it is given the text.

`${NAME}` in a text is filled in from the environment, `${NAME:-default}` where it may be missing; `$${` is plain `${`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from typing import Any, cast

from ferrule.errors import DefinitionError
from ferrule.server.config.layers import Given, Mistake, Place, meant, shown
from ferrule.server.config.locations import Key, lines_of
from ferrule.server.config.tables import TABLES, Table

_VARIABLE = re.compile(r"\$\$\{|\$\{([^}]*)\}")
_NAME = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)


def given_in_file(text: str, name: str, environment: Mapping[str, str]) -> tuple[dict[Place, Given], list[Mistake]]:
    """What the text gives, and what is wrong with it besides single values. `name` is the file's, for people."""
    try:
        held = tomllib.loads(text)
    except tomllib.TOMLDecodeError as damage:
        raise DefinitionError(
            f"{name} is not TOML: {damage}", code="bad_configuration", hint='Texts stand in quotes: host = "127.0.0.1".'
        ) from damage
    reading = _Reading(name, lines_of(text), environment)
    for table, content in held.items():
        reading.read_table(table, content)
    return reading.given, reading.mistakes


class _Reading:
    def __init__(self, name: str, lines: Mapping[Key, int], environment: Mapping[str, str]) -> None:
        self.given: dict[Place, Given] = {}
        self.mistakes: list[Mistake] = []
        self._name = name
        self._lines = lines
        self._environment = environment

    def read_table(self, name: str, content: object) -> None:
        table = TABLES.get(name)
        if table is None:
            owner = next((one.name for one in TABLES.values() if name in one.settings), "")
            remedy = f"It stands in [{owner}]" if owner else meant(name, TABLES, "tables")
            self._wrong((name,), f"{shown((name,))} is not known", remedy)
        elif table.is_named:
            self._read_named(table, content)
        elif isinstance(content, dict):
            self._read_entries((name,), (name,), cast("dict[str, object]", content))
        else:
            self._wrong((name,), f"{name} is a table and not a value", f"Write [{name}] on a line of its own")

    def _read_named(self, table: Table, content: object) -> None:
        """One table for each name, as [engines.NAME] or as [[keys]] with a name in each."""
        if isinstance(content, dict):
            for name, entries in cast("dict[str, object]", content).items():
                self._read_one(table, name, (table.name, name), entries)
            return
        if not isinstance(content, list):
            self._wrong((table.name,), f"{table.name} is no list of tables", f"Write [{table.name}.NAME]")
            return
        seen: dict[str, Key] = {}
        for at, entries in enumerate(cast("list[object]", content)):
            key = (table.name, at)
            own = dict(cast("dict[str, object]", entries)) if isinstance(entries, dict) else {}
            name = own.pop("name", None)
            if not isinstance(name, str) or not name:
                self._wrong(key, f"an entry of {table.name} has no name", 'Write name = "..." in it')
            elif name in seen:
                self._wrong((*key, "name"), f"two entries of {table.name} are called {name!r}", "Rename one")
            else:
                seen[name] = key
                self._read_one(table, name, key, own)

    def _read_one(self, table: Table, name: str, key: Key, entries: object) -> None:
        if isinstance(entries, dict):
            # So that a table without entries is known to be there, and what it lacks is told.
            self.given[table.name, name] = Given(name, self._origin(key))
            self._read_entries((table.name, name), key, cast("dict[str, object]", entries))
        else:
            what = f"{shown((table.name, name))} is a table and not a value"
            self._wrong(key, what, f"Write [{shown((table.name, name))}] and its settings under it")

    def _read_entries(self, place: Place, key: Key, entries: Mapping[str, object]) -> None:
        for name, value in entries.items():
            self.given[(*place, name)] = self._filled((*place, name), (*key, name), value)

    def _filled(self, place: Place, key: Key, value: object) -> Given:
        origin, before = self._origin(key), len(self.mistakes)
        expanded, is_text = value, False
        if isinstance(value, str):
            # A number may come from the environment too: port = "${PORT}".
            expanded, is_text = self._expanded(place, origin, value), "${" in value.replace("$${", "")
        elif isinstance(value, list):
            entries = cast("list[Any]", value)
            expanded = [self._expanded(place, origin, one) if isinstance(one, str) else one for one in entries]
        return Given(expanded, origin, is_text, is_wrong=len(self.mistakes) > before)

    def _expanded(self, place: Place, origin: str, text: str) -> str:
        def filled(found: re.Match[str]) -> str:
            if found[0] == "$${":
                return "${"
            spelled = _NAME.fullmatch(found[1])
            if spelled is None:
                what = f"{shown(place)} holds ${{{found[1]}}}, which names no variable"
                self.mistakes.append(Mistake(origin, what, "Write ${NAME}, or $${ for the characters themselves"))
                return ""
            name, default = spelled[1], cast("str | None", spelled[2])
            value = self._environment.get(name, default)
            if value is None:
                what = f"{shown(place)} needs the environment variable {name}, which is not set"
                self.mistakes.append(Mistake(origin, what, f"Set it, or write ${{{name}:-default}}"))
                return ""
            return value

        return _VARIABLE.sub(filled, text)

    def _origin(self, key: Key) -> str:
        line = self._lines.get(key)
        return f"{self._name} line {line}" if line else self._name

    def _wrong(self, key: Key, what: str, remedy: str) -> None:
        self.mistakes.append(Mistake(self._origin(key), what, remedy))
