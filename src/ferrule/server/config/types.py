"""Types of settings: how to parse a TOML value or the text of a variable. Knows no particular setting."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, cast

from ferrule.core.boolean_text import parse_boolean


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


def _strings(value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise ValueError
    return tuple(_str(one) for one in cast("list[object]", value))


def _strings_text(text: str) -> tuple[str, ...]:
    if text.lstrip().startswith("["):
        return _strings(json.loads(text))
    return tuple(filter(None, (part.strip() for part in text.split(","))))


_TYPES: Mapping[object, SettingType] = {
    bool: SettingType("true or false", _bool, parse_boolean),
    int: SettingType("an integer", _int, int),
    float: SettingType("a number", _float, lambda text: _float(float(text))),
    str: SettingType("a string", _str, str),
    tuple[str, ...]: SettingType("a list of strings", _strings, _strings_text),
}


def setting_type_of(hint: object) -> SettingType | None:
    """The setting type of a type hint; None if no setting has it."""
    return _TYPES[hint] if hint in _TYPES else _enum_type(hint)


def _enum_type(hint: object) -> SettingType | None:
    if not isinstance(hint, type) or not issubclass(hint, StrEnum):
        return None
    members: type[StrEnum] = hint
    return SettingType(f"one of {', '.join(members)}", lambda value: members(_str(value)), members)
