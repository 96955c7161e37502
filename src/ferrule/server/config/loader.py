"""Load the configuration from a file, the environment and flags. Later layers override earlier ones."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ferrule.errors import DefinitionError
from ferrule.server.config.builder import build_config
from ferrule.server.config.config import Config
from ferrule.server.config.file import parse_toml
from ferrule.server.config.layers import (
    ConfigProblem,
    Layer,
    LayerValue,
    SettingPath,
    format_path,
    raise_problems,
    suggest,
)
from ferrule.server.config.tables import PREFIX, TABLES, Table, variables_of
from ferrule.server.config.validation import find_errors

# Read settings from environment variables: FERRULE_TABLE_SETTING, or FERRULE_TABLE_NAME_SETTING for named tables.
#
# In a variable, names are upper case, with `_` for every character that is not a letter or digit. A variable that
# starts like one of a table but names no setting is a problem; all other variables are ignored.

_VARIABLES = {
    variable: (table.name, one.name)
    for table in TABLES.values()
    if not table.is_named
    for one in table.settings.values()
    # Reversed, so that the prefixed name wins if both names of a tool setting are set.
    for variable in reversed(variables_of(one))
}


def variable_part(name: str) -> str:
    """The spelling of a name inside a variable."""
    return re.sub(r"[^A-Z0-9]", "_", name.upper())


def read_environment(
    environment: Mapping[str, str], paths: Iterable[SettingPath] = ()
) -> tuple[dict[SettingPath, LayerValue], list[ConfigProblem]]:
    """Read the layer of the environment. `paths` are the settings of other layers, whose names are recognized here."""
    values: dict[SettingPath, LayerValue] = {}
    problems: list[ConfigProblem] = []
    for variable in sorted(environment, key=lambda name: name.startswith(PREFIX)):
        if variable in _VARIABLES:
            values[_VARIABLES[variable]] = LayerValue(environment[variable], f"${variable}", is_text=True)
    known_paths = list(paths)
    for table in TABLES.values():
        prefix = f"{PREFIX}{table.name.upper()}_"
        matching = {name.removeprefix(prefix): name for name in environment if name.startswith(prefix)}
        if table.is_named:
            names = {path[1] for path in known_paths if path[0] == table.name and len(path) > 1}
            _read_named(table, names, matching, environment, values, problems)
        else:
            problems += [_unknown_variable(name, table) for name in matching.values() if name not in _VARIABLES]
    return values, problems


def _read_named(
    table: Table,
    names: set[str],
    matching: Mapping[str, str],
    environment: Mapping[str, str],
    values: dict[SettingPath, LayerValue],
    problems: list[ConfigProblem],
) -> None:
    names_by_spelling: dict[str, list[str]] = {}
    for name in sorted(names | _new_names(table, names, matching)):
        names_by_spelling.setdefault(variable_part(name), []).append(name)
    for rest, variable in sorted(matching.items()):
        # The longest match, so that BIG_TWO_USE belongs to big-two and not to big.
        spelling = max((one for one in names_by_spelling if rest.startswith(f"{one}_")), key=len, default=None)
        setting = rest.removeprefix(f"{spelling}_").lower()
        if spelling is None:
            required = ", ".join(key.upper() for key, one in table.settings.items() if one.is_required)
            remedy = f"To define a new one, set FERRULE_{table.name.upper()}_NAME_{required}"
            problems.append(ConfigProblem(f"${variable}", f"it matches none of the {table.name}", remedy))
        elif len(names_by_spelling[spelling]) > 1:
            both = " and ".join(names_by_spelling[spelling])
            problems.append(ConfigProblem(f"${variable}", f"it matches both {both}", "Rename one of them"))
        elif setting not in table.settings and not table.allows_extra:
            message = f"{setting} is not known in {table.name}"
            problems.append(ConfigProblem(f"${variable}", message, suggest(setting, table.settings, "settings")))
        else:
            path = (table.name, names_by_spelling[spelling][0])
            values.setdefault(path, LayerValue(path[1], f"${variable}"))
            values[(*path, setting)] = LayerValue(environment[variable], f"${variable}", is_text=True)


def _new_names(table: Table, names: Iterable[str], matching: Iterable[str]) -> set[str]:
    """Names that only the environment defines: those for which it has a required setting."""
    existing = {variable_part(name) for name in names}
    suffixes = [f"_{key.upper()}" for key, one in table.settings.items() if one.is_required]
    spellings = {
        rest.removesuffix(suffix)
        for rest in matching
        for suffix in suffixes
        if rest.endswith(suffix) and rest != suffix
    }
    return {name.lower().replace("_", "-") for name in spellings if name not in existing}


def _unknown_variable(variable: str, table: Table) -> ConfigProblem:
    candidates = {one for setting in table.settings.values() for one in variables_of(setting) if one.startswith(PREFIX)}
    return ConfigProblem(f"${variable}", "it is not a known variable", suggest(variable, candidates, "variables"))


DEFAULT_FILE = "ferrule.toml"


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    """A configuration, and the origin of each value."""

    config: Config
    values: Mapping[SettingPath, LayerValue]

    def origin(self, *path: str) -> str:
        layer_value = self.values.get(path)
        return layer_value.origin if layer_value else "default"


def parse_config(text: str, name: str, environment: Mapping[str, str], flags: Layer | None = None) -> LoadedConfig:
    """Parse the text of a file. Flags override the environment, which overrides the file."""
    file_values, problems = parse_toml(text, name, environment)
    flag_values = flags or {}
    environment_values, more_problems = read_environment(environment, [*file_values, *flag_values])
    layer = {**file_values, **environment_values, **flag_values}
    loaded = LoadedConfig(build_config(layer, [*problems, *more_problems]), layer)
    raise_problems(_with_origin(one, layer) for one in find_errors(loaded.config))
    return loaded


def _with_origin(problem: ConfigProblem, layer: Layer) -> ConfigProblem:
    """Prefix the origin of the value that a problem is about, if it is about a single setting."""
    for path, layer_value in layer.items():
        if format_path(path) == problem.origin:
            return replace(problem, origin=f"{layer_value.origin}: {problem.origin}")
    return problem


def load_config(path: str | None, environment: Mapping[str, str], flags: Layer | None = None) -> LoadedConfig:
    """Load a file. Without a path, load ./ferrule.toml if it exists."""
    if path is None and not Path(DEFAULT_FILE).exists():
        return parse_config("", DEFAULT_FILE, environment, flags)
    file = path or DEFAULT_FILE
    try:
        text = Path(file).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise DefinitionError(
            f"{file} cannot be read: {reason}",
            code="bad_configuration",
            hint="Give the path of an existing ferrule.toml.",
        ) from error
    return parse_config(text, file, environment, flags)
