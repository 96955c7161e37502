"""Load the configuration from a file, the environment and flags. Later layers override earlier ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ferrule.errors import DefinitionError
from ferrule.server.config.builder import build_config
from ferrule.server.config.config import Config
from ferrule.server.config.environment import read_environment
from ferrule.server.config.file import parse_toml
from ferrule.server.config.layers import ConfigProblem, Layer, LayerValue, SettingPath, format_path, raise_problems
from ferrule.server.config.validation import find_errors

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
