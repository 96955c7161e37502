"""Build a `Config` from the merged layers, or report all problems at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast
from urllib.parse import quote

from ferrule.errors import DefinitionError
from ferrule.server.auth.host import is_loopback
from ferrule.server.config.config import Config
from ferrule.server.config.layers import (
    ConfigProblem,
    Layer,
    LayerValue,
    SettingPath,
    format_path,
    raise_problems,
    suggest,
)
from ferrule.server.config.tables import SERVER, TABLES, Setting, Table

# Settings that may be 0, besides those whose default is 0.
_MAY_BE_ZERO = frozenset({"port", "drain_seconds", "approvers", "days", "mcp_question_seconds"})
_MAXIMUM = {"port": 65_535}
_ANY = ("*",)


def build_config(layer: Layer, problems: list[ConfigProblem]) -> Config:
    """Build the configuration; settings that no layer gives get their defaults.

    `problems` are those found while the layers were read. Raises a `DefinitionError` with all problems.
    """
    builder = _Builder(layer, problems)
    tables = {table.name: builder.build_table(table) for table in TABLES.values()}
    server_values = builder.values((SERVER,), TABLES[SERVER], Config)
    raise_problems(builder.problems)
    config = Config(**tables, **server_values)
    is_open = (SERVER, "hosts") not in layer and not is_loopback(config.server.host)
    # A gateway on a public address has host names that are not known here, so keys protect it instead.
    return replace(config, server=replace(config.server, hosts=_ANY)) if is_open else config


class _Builder:
    def __init__(self, layer: Layer, problems: list[ConfigProblem]) -> None:
        self.problems = list(problems)
        self._layer = layer

    def build_table(self, table: Table) -> Any:
        if not table.is_named:
            self._report_unknown((table.name,), table)
            return self._construct((table.name,), table, self.values((table.name,), table, table.config_class))
        names = dict.fromkeys(path[1] for path in self._layer if path[0] == table.name)
        entries = [self._build_named((table.name, name), table) for name in names]
        return tuple(one for one in entries if one is not None)

    def values(self, path: SettingPath, table: Table, owner: type[Any]) -> dict[str, Any]:
        parsed: dict[str, Any] = {}
        for name, setting in table.settings.items():
            layer_value = self._layer.get((*path, name))
            if setting.owner is owner and layer_value is not None and not layer_value.is_invalid:
                try:
                    parsed[name] = _parse_value((*path, name), setting, layer_value)
                except _InvalidValueError as error:
                    self.problems.append(error.problem)
        return parsed

    def _build_named(self, path: SettingPath, table: Table) -> Any:
        extra = self._extra_settings(path, table)
        if not table.allows_extra:
            self._report_unknown(path, table)
        values = self.values(path, table, table.config_class)
        missing = [name for name, one in table.settings.items() if one.is_required and (*path, name) not in self._layer]
        for name in missing:
            present = f"; it has only {', '.join(extra)}" if extra else ""
            remedy = f"Write {name} = ... under it{present}"
            self.problems.append(ConfigProblem(self._layer[path].origin, f"{format_path(path)} has no {name}", remedy))
        if missing or any(name not in values for name, one in table.settings.items() if one.is_required):
            return None
        if table.allows_extra:
            values["use"] = _with_options(str(values["use"]), self._options(path, extra))
        return self._construct(path, table, {"name": path[-1], **values})

    def _construct(self, path: SettingPath, table: Table, values: dict[str, Any]) -> Any:
        try:
            return table.config_class(**values)
        except DefinitionError as error:
            # The first word of the message is the setting that the class refuses.
            name = error.message.split()[0]
            origin = self._layer[(*path, name)].origin if (*path, name) in self._layer else ""
            self.problems.append(ConfigProblem(origin, f"{format_path(path)}: {error.message}", error.hint.rstrip(".")))
            return None

    def _extra_settings(self, path: SettingPath, table: Table) -> dict[str, LayerValue]:
        depth = len(path) + 1
        return {
            key[-1]: layer_value
            for key, layer_value in self._layer.items()
            if len(key) == depth and key[:-1] == path and key[-1] not in table.settings
        }

    def _report_unknown(self, path: SettingPath, table: Table) -> None:
        for name, layer_value in self._extra_settings(path, table).items():
            owner = next((one.name for one in TABLES.values() if name in one.settings and not one.is_named), "")
            remedy = f"It belongs in [{owner}]" if owner else suggest(name, table.settings, "settings")
            self.problems.append(
                ConfigProblem(layer_value.origin, f"{format_path((*path, name))} is not known", remedy)
            )

    def _options(self, path: SettingPath, extra: Mapping[str, LayerValue]) -> dict[str, str]:
        options: dict[str, str] = {}
        for name, layer_value in extra.items():
            text = _option_text(layer_value.value)
            if text is None:
                message = f"{format_path((*path, name))} cannot be an option of an engine"
                self.problems.append(
                    ConfigProblem(layer_value.origin, message, "Give a string, a number, or true or false")
                )
            else:
                options[name] = text
        return options


class _InvalidValueError(Exception):
    def __init__(self, problem: ConfigProblem) -> None:
        super().__init__()
        self.problem = problem


def _parse_value(path: SettingPath, setting: Setting, layer_value: LayerValue) -> Any:
    setting_type = setting.setting_type
    try:
        value = (
            setting_type.parse_text(layer_value.value)
            if layer_value.is_text and isinstance(layer_value.value, str)
            else setting_type.parse_value(layer_value.value)
        )
    except ValueError:
        message = f"{format_path(path)} cannot be {layer_value.value!r:.60}"
        raise _InvalidValueError(
            ConfigProblem(layer_value.origin, message, f"Give {setting_type.description}")
        ) from None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    allowed_range = _allowed_range(setting, value) if is_number else ""
    if allowed_range:
        raise _InvalidValueError(
            ConfigProblem(layer_value.origin, f"{format_path(path)} cannot be {value}", f"Give {allowed_range}")
        )
    return value


def _allowed_range(setting: Setting, value: float) -> str:
    """The range that a number violates, as a phrase; empty if the number is valid."""
    may_be_zero = setting.name in _MAY_BE_ZERO or setting.default == 0
    if value < 0 or (value == 0 and not may_be_zero):
        return "0 or more" if may_be_zero else "more than 0"
    maximum = _MAXIMUM.get(setting.name, value)
    return f"at most {maximum}" if value > maximum else ""


def _option_text(value: object) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    if isinstance(value, list) and all(isinstance(one, str) for one in cast("list[object]", value)):
        return ",".join(cast("list[str]", value))
    return None


def _with_options(use: str, options: Mapping[str, str]) -> str:
    """Append options to an engine string, percent-encoded so that any character of a key survives."""
    joined = "&".join(f"{name}={quote(value, safe='/:,')}" for name, value in options.items())
    if not joined:
        return use
    return f"{use}&{joined}" if "?" in use else f"{use}?{joined}"
