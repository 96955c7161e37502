"""Reading: the configuration from a file, the environment and flags, each over the one before it. Reads one file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ferrule.errors import DefinitionError
from ferrule.server.config.builder import config_of
from ferrule.server.config.config import Config
from ferrule.server.config.environment import given_in_environment
from ferrule.server.config.file import given_in_file
from ferrule.server.config.layers import Given, Layer, Mistake, Place, refuse, shown
from ferrule.server.config.validation import impossible

DEFAULT_FILE = "ferrule.toml"


@dataclass(frozen=True, slots=True)
class Loaded:
    """The configuration, and who gave what of it."""

    config: Config
    given: Mapping[Place, Given]

    def origin(self, *place: str) -> str:
        given = self.given.get(place)
        return given.origin if given else "default"


def read(text: str, name: str, environment: Mapping[str, str], flags: Layer | None = None) -> Loaded:
    """From the text of a file. Flags count before the environment, the environment before the file."""
    in_file, mistakes = given_in_file(text, name, environment)
    over = flags or {}
    in_environment, more = given_in_environment(environment, [*in_file, *over])
    layer = {**in_file, **in_environment, **over}
    loaded = Loaded(config_of(layer, [*mistakes, *more]), layer)
    refuse(_located(one, layer) for one in impossible(loaded.config))
    return loaded


def _located(mistake: Mistake, layer: Layer) -> Mistake:
    """With who gave it, where the mistake is about one place."""
    for place, given in layer.items():
        if shown(place) == mistake.origin:
            return replace(mistake, origin=f"{given.origin}: {mistake.origin}")
    return mistake


def load(path: str | None, environment: Mapping[str, str], flags: Layer | None = None) -> Loaded:
    """From a file; without a path from ./ferrule.toml, where there is one."""
    if path is None and not Path(DEFAULT_FILE).exists():
        return read("", DEFAULT_FILE, environment, flags)
    where = path or DEFAULT_FILE
    try:
        text = Path(where).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as problem:
        told = problem.strerror if isinstance(problem, OSError) else "it is not UTF-8"
        raise DefinitionError(
            f"{where} cannot be read: {told}", code="bad_configuration", hint="Name a ferrule.toml that exists."
        ) from problem
    return read(text, where, environment, flags)
