"""Layers of settings with their origins, and problems found in them. File, environment and flags are one layer each.

A path identifies a setting: `("server", "port")`, or `("engines", "smol", "use")` in a table with one entry per name.
Layers are merged path by path; a later layer overrides an earlier one.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ferrule.errors import DefinitionError

SettingPath = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LayerValue:
    """A value of one layer, before it is parsed. `is_text`: parse it like the value of an environment variable."""

    value: object
    origin: str
    is_text: bool = False
    is_invalid: bool = False
    """A problem with it has already been reported."""


Layer = Mapping[SettingPath, LayerValue]


@dataclass(frozen=True, slots=True)
class ConfigProblem:
    """One problem and its remedy. `origin` is a line of the file, a variable or a flag."""

    origin: str
    message: str
    remedy: str = ""

    def __str__(self) -> str:
        text = f"{self.origin}: {self.message}" if self.origin else self.message
        return f"{text}. {self.remedy}" if self.remedy else f"{text}."


def format_path(path: SettingPath) -> str:
    """Format a path as in a TOML file, with quotes around parts that are not bare keys."""
    return ".".join(part if part.replace("-", "").replace("_", "").isalnum() else f'"{part}"' for part in path)


def suggest(name: str, candidates: Iterable[str], kind: str) -> str:
    """The remedy for an unknown name: the closest known name, or the list of known names."""
    names = sorted(candidates)
    matches = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    if matches:
        return f"Did you mean {matches[0]}?"
    return f"Known {kind}: {', '.join(names)}" if names else f"There are no {kind}"


def raise_problems(problems: Iterable[ConfigProblem]) -> None:
    """Raise one `DefinitionError` with all problems, so that you can fix them in one go."""
    messages = list(dict.fromkeys(map(str, problems)))
    if not messages:
        return
    count = f" ({len(messages)} problems)" if len(messages) > 1 else ""
    lines = "\n".join(f"  {one}" for one in messages)
    raise DefinitionError(
        f"the configuration is invalid{count}:\n{lines}",
        code="bad_configuration",
        hint="`ferrule config settings` explains every setting.",
    )
