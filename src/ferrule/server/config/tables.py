"""The tables of ferrule.toml, derived from the classes in `config`.

A field of `Config` whose type is a dataclass is a table. A field that is a tuple of a dataclass is one table per name.
The other fields belong to [server].
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from enum import StrEnum
from typing import Any, cast, get_args, get_origin, get_type_hints

from ferrule.core.boolean_text import parse_boolean
from ferrule.server.config.config import Config


@dataclass(frozen=True, slots=True)
class SettingType:
    """One type. Both parsers raise `ValueError` for an invalid value."""

    description: str
    parse_value: Callable[[object], Any]
    parse_text: Callable[[str], Any]


def _bool(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError
    return value


def _int(value: object) -> int:
    # In Python, bool is a subclass of int; in a configuration true is not a number.
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError
    return value


def _float(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError
    return float(value)


def _str(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError
    return value


def _object(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError
    return cast("dict[str, Any]", value)


def _strings(value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise ValueError
    return tuple(_str(one) for one in cast("list[object]", value))


def _strings_text(text: str) -> tuple[str, ...]:
    if text.lstrip().startswith("["):
        return _strings(json.loads(text))
    return tuple(filter(None, (part.strip() for part in text.split(","))))


def _string_or_strings(value: object) -> str | tuple[str, ...]:
    return value if isinstance(value, str) else _strings(value)


def _string_or_strings_text(text: str) -> str | tuple[str, ...]:
    # Not at commas: one address of a database may contain some.
    return _strings_text(text) if text.lstrip().startswith("[") else text


_TYPES: Mapping[object, SettingType] = {
    bool: SettingType("true or false", _bool, parse_boolean),
    int: SettingType("an integer", _int, int),
    float: SettingType("a number", _float, lambda text: _float(float(text))),
    str: SettingType("a string", _str, str),
    dict[str, Any]: SettingType("a JSON object", _object, lambda text: _object(json.loads(text))),
    tuple[str, ...]: SettingType("a list of strings", _strings, _strings_text),
    str | tuple[str, ...]: SettingType("a string, or a list of strings", _string_or_strings, _string_or_strings_text),
}


def setting_type_of(hint: object) -> SettingType | None:
    """The setting type of a type hint; None if no setting has it."""
    return _TYPES[hint] if hint in _TYPES else _enum_type(hint)


def _enum_type(hint: object) -> SettingType | None:
    if not isinstance(hint, type) or not issubclass(hint, StrEnum):
        return None
    members: type[StrEnum] = hint
    return SettingType(f"one of {', '.join(members)}", lambda value: members(_str(value)), members)


SERVER = "server"
PREFIX = "FERRULE_"


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting. `owner` is the class that has it as a field."""

    table: str
    name: str
    setting_type: SettingType
    default: Any
    owner: type[Any]

    @property
    def is_required(self) -> bool:
        return self.default is MISSING


@dataclass(frozen=True, slots=True)
class Table:
    """One table, named like its field in `Config`. `is_named` if there is one table per name."""

    name: str
    config_class: type[Any]
    is_named: bool
    settings: Mapping[str, Setting]
    allows_extra: bool = False
    """Whether unknown settings are accepted as engine options; the engine checks them."""


def variable_of(table: str, name: str) -> str:
    """The variable FERRULE_TABLE_NAME. A table name that the setting already starts with is not repeated."""
    text = name if name.startswith(f"{table}_") else f"{table}_{name}"
    return PREFIX + text.upper()


def variables_of(setting: Setting) -> tuple[str, ...]:
    """The environment variables of a setting. Tool settings also have their specified name, without our prefix."""
    ours = variable_of(setting.table, setting.name)
    return (ours, setting.name.upper()) if setting.name.startswith("tools_") else (ours,)


def _settings(table: str, owner: type[Any]) -> dict[str, Setting]:
    hints = get_type_hints(owner)
    types = {one: setting_type_of(hints[one.name]) for one in fields(owner)}
    return {
        one.name: Setting(table, one.name, setting_type, _default(one), owner)
        for one, setting_type in types.items()
        if setting_type is not None
    }


def _default(one: Field[Any]) -> Any:
    return one.default if one.default_factory is MISSING else one.default_factory()


def _tables() -> dict[str, Table]:
    tables: dict[str, Table] = {}
    for name, hint in get_type_hints(Config).items():
        if is_dataclass(hint) and isinstance(hint, type):
            tables[name] = Table(name, hint, False, _settings(name, hint))
        elif get_origin(hint) is tuple and is_dataclass(get_args(hint)[0]):
            config_class = get_args(hint)[0]
            settings = {key: one for key, one in _settings(name, config_class).items() if key != "name"}
            tables[name] = Table(name, config_class, True, settings, allows_extra=name == "engines")
    server = tables[SERVER]
    settings_of_server = {**server.settings, **_settings(SERVER, Config)}
    tables[SERVER] = Table(server.name, server.config_class, False, settings_of_server)
    order = [SERVER, *(name for name in tables if name != SERVER)]
    return {name: tables[name] for name in order}


TABLES: Mapping[str, Table] = _tables()
