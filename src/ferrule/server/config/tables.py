"""The tables of ferrule.toml, made out of the classes in `config`: which settings there are, of what kind.

A field of `Config` that is a class of its own is a table; several of one class are a table for each name; the other
fields stand in [server].
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from typing import Any, get_args, get_origin, get_type_hints

from ferrule.server.config.config import Config
from ferrule.server.config.types import Kind, kind_of

SERVER = "server"
_CALLED = {"listening": SERVER}
PREFIX = "FERRULE_"


@dataclass(frozen=True, slots=True)
class Setting:
    """`owner` is the class that has it as a field."""

    table: str
    name: str
    kind: Kind
    default: Any
    owner: type[Any]

    @property
    def is_required(self) -> bool:
        return self.default is MISSING


@dataclass(frozen=True, slots=True)
class Table:
    """`attribute` is what it is in `Config`; `is_named` where there is one for each name."""

    name: str
    attribute: str
    make: type[Any]
    is_named: bool
    settings: Mapping[str, Setting]
    takes_others: bool = False
    """Whether what it does not know are options, for an engine to judge."""


def variable_of(table: str, name: str) -> str:
    """FERRULE_TABLE_NAME; where a name begins with its table's, it is not said twice."""
    said = name if name.startswith(f"{table}_") else f"{table}_{name}"
    return PREFIX + said.upper()


def variables_of(setting: Setting) -> tuple[str, ...]:
    """The names in the environment. The specification's own names for tools stand there without our prefix too."""
    ours = variable_of(setting.table, setting.name)
    return (ours, setting.name.upper()) if setting.name.startswith("tools_") else (ours,)


def _settings(table: str, owner: type[Any]) -> dict[str, Setting]:
    hints = get_type_hints(owner)
    kinds = {one: kind_of(hints[one.name]) for one in fields(owner)}
    return {
        one.name: Setting(table, one.name, kind, _default(one), owner)
        for one, kind in kinds.items()
        if kind is not None
    }


def _default(one: Field[Any]) -> Any:
    return one.default if one.default_factory is MISSING else one.default_factory()


def _tables() -> dict[str, Table]:
    found: dict[str, Table] = {}
    for attribute, hint in get_type_hints(Config).items():
        name = _CALLED.get(attribute, attribute)
        if is_dataclass(hint) and isinstance(hint, type):
            found[name] = Table(name, attribute, hint, False, _settings(name, hint))
        elif get_origin(hint) is tuple and is_dataclass(get_args(hint)[0]):
            make = get_args(hint)[0]
            settings = {key: one for key, one in _settings(name, make).items() if key != "name"}
            found[name] = Table(name, attribute, make, True, settings, takes_others=name == "engines")
    server = found[SERVER]
    joined = {**server.settings, **_settings(SERVER, Config)}
    found[SERVER] = Table(server.name, server.attribute, server.make, False, joined)
    order = [SERVER, *(name for name in found if name != SERVER)]
    return {name: found[name] for name in order}


TABLES: Mapping[str, Table] = _tables()
