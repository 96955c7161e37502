"""Kinds of settings: how a value of each is read, from a file and from a text. Knows no setting."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, cast

_TRUTH = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}


@dataclass(frozen=True, slots=True)
class Kind:
    """Both ways of reading raise `ValueError` for what is not one."""

    words: str
    of_value: Callable[[object], Any]
    of_text: Callable[[str], Any]


def _bool(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError
    return value


def _bool_text(text: str) -> bool:
    if text.strip().lower() not in _TRUTH:
        raise ValueError
    return _TRUTH[text.strip().lower()]


def _int(value: object) -> int:
    # true is a whole number to Python, and to nobody else.
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


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise ValueError
    return tuple(_str(one) for one in cast("list[object]", value))


def _texts_text(text: str) -> tuple[str, ...]:
    if text.lstrip().startswith("["):
        return _texts(json.loads(text))
    return tuple(filter(None, (part.strip() for part in text.split(","))))


_KINDS: Mapping[object, Kind] = {
    bool: Kind("true or false", _bool, _bool_text),
    int: Kind("a whole number", _int, int),
    float: Kind("a number", _float, lambda text: _float(float(text))),
    str: Kind("a text", _str, str),
    tuple[str, ...]: Kind("a list of texts", _texts, _texts_text),
}


def kind_of(hint: object) -> Kind | None:
    """How values of a type are read; None for a type that is no setting's."""
    return _KINDS[hint] if hint in _KINDS else _kind_of_words(hint)


def _kind_of_words(hint: object) -> Kind | None:
    if not isinstance(hint, type) or not issubclass(hint, StrEnum):
        return None
    words: type[StrEnum] = hint
    return Kind(f"one of {', '.join(words)}", lambda value: words(_str(value)), words)
