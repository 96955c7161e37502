"""What was given for a setting, by whom, and what is wrong with it. Files, the environment and flags all come to this.

A place is where a setting stands: `("server", "port")`, or `("engines", "smol", "use")` where there is one table for
each name. Layers of what was given are laid over each other place by place, so the order of layers is all there is to
say about which of them counts.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ferrule.errors import DefinitionError

Place = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Given:
    """A value as it stood where it was given. `is_text`: it is to be read as the environment's texts are."""

    value: object
    origin: str
    is_text: bool = False
    is_wrong: bool = False
    """A mistake was told of it already."""


Layer = Mapping[Place, Given]


@dataclass(frozen=True, slots=True)
class Mistake:
    """One thing that is wrong, and what to do. `origin` is a line of the file, a variable or a flag."""

    origin: str
    what: str
    remedy: str = ""

    def __str__(self) -> str:
        told = f"{self.origin}: {self.what}" if self.origin else self.what
        return f"{told}. {self.remedy}" if self.remedy else f"{told}."


def shown(place: Place) -> str:
    """A place as it is written in a file, with quotes where a bare key could not hold it."""
    return ".".join(part if part.replace("-", "").replace("_", "").isalnum() else f'"{part}"' for part in place)


def meant(wrong: str, known: Iterable[str], kind: str) -> str:
    """What to do about a name that nobody knows."""
    names = sorted(known)
    close = difflib.get_close_matches(wrong, names, n=1, cutoff=0.6)
    if close:
        return f"Did you mean {close[0]}?"
    return f"Known {kind}: {', '.join(names)}" if names else f"There are no {kind}"


def refuse(mistakes: Iterable[Mistake]) -> None:
    """All of them at once: whoever mends a file wants to mend it once."""
    told = list(dict.fromkeys(map(str, mistakes)))
    if not told:
        return
    more = f" ({len(told)} mistakes)" if len(told) > 1 else ""
    lines = "\n".join(f"  {one}" for one in told)
    raise DefinitionError(
        f"the configuration cannot be used{more}:\n{lines}",
        code="bad_configuration",
        hint="Every setting is explained by `ferrule config settings`.",
    )
