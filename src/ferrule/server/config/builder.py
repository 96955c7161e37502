"""Config out of everything that was given, or every mistake in it at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast
from urllib.parse import quote

from ferrule.errors import DefinitionError
from ferrule.server.addresses import is_loopback
from ferrule.server.config.config import Config
from ferrule.server.config.layers import Given, Layer, Mistake, Place, meant, refuse, shown
from ferrule.server.config.tables import SERVER, TABLES, Setting, Table

# Besides those whose default is 0.
_MAY_BE_NOTHING = frozenset({"port", "drain_seconds"})
_MOST = {"port": 65_535}
_ANY = ("*",)


def config_of(layer: Layer, mistakes: list[Mistake]) -> Config:
    """The configuration, with the defaults of whatever was not given. `mistakes` are those that were found before."""
    building = _Building(layer, mistakes)
    made = {table.attribute: building.made(table) for table in TABLES.values()}
    own = building.values((SERVER,), TABLES[SERVER], Config)
    refuse(building.mistakes)
    config = Config(**made, **own)
    is_open = (SERVER, "hosts") not in layer and not is_loopback(config.listening.host)
    # Whoever listens beyond this machine is called by names that nobody here can know; then the key is what counts.
    return replace(config, listening=replace(config.listening, hosts=_ANY)) if is_open else config


class _Building:
    def __init__(self, layer: Layer, mistakes: list[Mistake]) -> None:
        self.mistakes = list(mistakes)
        self._layer = layer

    def made(self, table: Table) -> Any:
        if not table.is_named:
            self._name_strangers((table.name,), table)
            return self._built((table.name,), table, self.values((table.name,), table, table.make))
        names = dict.fromkeys(place[1] for place in self._layer if place[0] == table.name)
        built = [self._named((table.name, name), table) for name in names]
        return tuple(one for one in built if one is not None)

    def values(self, place: Place, table: Table, owner: type[Any]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, setting in table.settings.items():
            given = self._layer.get((*place, name))
            if setting.owner is owner and given is not None and not given.is_wrong:
                try:
                    found[name] = _read((*place, name), setting, given)
                except _WrongError as wrong:
                    self.mistakes.append(wrong.mistake)
        return found

    def _named(self, place: Place, table: Table) -> Any:
        others = self._others(place, table)
        if not table.takes_others:
            self._name_strangers(place, table)
        values = self.values(place, table, table.make)
        missing = [
            name for name, one in table.settings.items() if one.is_required and (*place, name) not in self._layer
        ]
        for name in missing:
            there = f"; there is only {', '.join(others)}" if others else ""
            remedy = f"Write {name} = ... under it{there}"
            self.mistakes.append(Mistake(self._layer[place].origin, f"{shown(place)} has no {name}", remedy))
        if missing or any(name not in values for name, one in table.settings.items() if one.is_required):
            return None
        if table.takes_others:
            values["use"] = _with_options(str(values["use"]), self._options(place, others))
        return self._built(place, table, {"name": place[-1], **values})

    def _built(self, place: Place, table: Table, values: dict[str, Any]) -> Any:
        try:
            return table.make(**values)
        except DefinitionError as refusal:
            # A class that looks at its values itself says which of them it does not take.
            name = refusal.message.split()[0]
            origin = self._layer[(*place, name)].origin if (*place, name) in self._layer else ""
            self.mistakes.append(Mistake(origin, f"{shown(place)}: {refusal.message}", refusal.hint.rstrip(".")))
            return None

    def _others(self, place: Place, table: Table) -> dict[str, Given]:
        long = len(place) + 1
        return {
            at[-1]: given
            for at, given in self._layer.items()
            if len(at) == long and at[:-1] == place and at[-1] not in table.settings
        }

    def _name_strangers(self, place: Place, table: Table) -> None:
        for name, given in self._others(place, table).items():
            owner = next((one.name for one in TABLES.values() if name in one.settings and not one.is_named), "")
            remedy = f"It stands in [{owner}]" if owner else meant(name, table.settings, "settings there")
            self.mistakes.append(Mistake(given.origin, f"{shown((*place, name))} is not known", remedy))

    def _options(self, place: Place, others: Mapping[str, Given]) -> dict[str, str]:
        found: dict[str, str] = {}
        for name, given in others.items():
            text = _option_text(given.value)
            if text is None:
                what = f"{shown((*place, name))} cannot be an option of an engine"
                self.mistakes.append(Mistake(given.origin, what, "Give a text, a number, or true or false"))
            else:
                found[name] = text
        return found


class _WrongError(Exception):
    def __init__(self, mistake: Mistake) -> None:
        super().__init__()
        self.mistake = mistake


def _read(place: Place, setting: Setting, given: Given) -> Any:
    kind = setting.kind
    try:
        value = (
            kind.of_text(given.value) if given.is_text and isinstance(given.value, str) else kind.of_value(given.value)
        )
    except ValueError:
        what = f"{shown(place)} cannot be {given.value!r:.60}"
        raise _WrongError(Mistake(given.origin, what, f"Give {kind.words}")) from None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    wanted = _wanted(setting, value) if is_number else ""
    if wanted:
        raise _WrongError(Mistake(given.origin, f"{shown(place)} cannot be {value}", f"Give {wanted}"))
    return value


def _wanted(setting: Setting, value: float) -> str:
    """What a number should be that is not; empty for one that is."""
    may_be_nothing = setting.name in _MAY_BE_NOTHING or setting.default == 0
    if value < 0 or (value == 0 and not may_be_nothing):
        return "0 or more" if may_be_nothing else "more than 0"
    most = _MOST.get(setting.name, value)
    return f"at most {most}" if value > most else ""


def _option_text(value: object) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    if isinstance(value, list) and all(isinstance(one, str) for one in cast("list[object]", value)):
        return ",".join(cast("list[str]", value))
    return None


def _with_options(use: str, options: Mapping[str, str]) -> str:
    """The engine's string with its options in it, spelled so that any character of a key goes through."""
    joined = "&".join(f"{name}={quote(value, safe='/:,')}" for name, value in options.items())
    if not joined:
        return use
    return f"{use}&{joined}" if "?" in use else f"{use}?{joined}"
