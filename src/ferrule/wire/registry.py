"""The registry: formats by name. Families are found in `formats/`; outsiders use an entry point or `register`.

A preset reads several formats at once, in priority order, and writes the first.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from importlib.metadata import entry_points
from types import ModuleType
from typing import cast

from ferrule.errors import FormatConflictError, UnknownFormatError
from ferrule.wire import formats as families
from ferrule.wire.format import Example, Format
from ferrule.wire.node import Calls, Free, Think

ENTRY_POINTS = "ferrule.formats"

_registered: dict[str, Format] = {}


@cache
def _family_modules() -> tuple[ModuleType, ...]:
    names = sorted(found.name for found in pkgutil.iter_modules(families.__path__))
    return tuple(importlib.import_module(f"{families.__name__}.{name}") for name in names)


@cache
def _built_in() -> dict[str, Format]:
    found: dict[str, Format] = {}
    for module in _family_modules():
        for form in cast("tuple[Format, ...]", module.FORMATS):
            _add(found, form)
    for point in entry_points(group=ENTRY_POINTS):
        loaded = point.load()
        for form in loaded if isinstance(loaded, tuple) else (loaded,):  # pyright: ignore[reportUnknownVariableType]
            _add(found, cast("Format", form))
    return found


def _add(known: dict[str, Format], form: Format) -> None:
    if form.name in known:
        raise FormatConflictError(
            f"two formats are called {form.name!r}", hint="Give one of them another name: a name is what users type."
        )
    known[form.name] = form


def register(form: Format) -> Format:
    """Add a format for this process; an installed package uses the entry point group `ferrule.formats` instead."""
    if form.name in _built_in():
        raise FormatConflictError(f"two formats are called {form.name!r}", hint="Give yours another name.")
    _add(_registered, form)
    return form


def formats() -> dict[str, Format]:
    """Every known format by name, sorted."""
    return dict(sorted({**_built_in(), **_registered}.items()))


def get_format(name: str) -> Format:
    """The format of that name; an unknown name fails here, when it is loaded, and not in mid-stream."""
    known = formats()
    if name not in known:
        raise UnknownFormatError(f"no format is called {name!r}", hint=f"Known: {', '.join(known)}.")
    return known[name]


def families_of_formats() -> dict[str, tuple[Format, ...]]:
    """The formats of each family file."""
    return {
        module.__name__.rpartition(".")[2]: cast("tuple[Format, ...]", module.FORMATS) for module in _family_modules()
    }


def examples() -> tuple[Example, ...]:
    """Every example of every family file."""
    return tuple(example for module in _family_modules() for example in cast("tuple[Example, ...]", module.EXAMPLES))


def preset(name: str, members: Iterable[str]) -> Format:
    """One format that writes the first member and reads them all; where two begin alike, the earlier is tried first."""
    read = [get_format(member) for member in members]
    if not read:
        raise UnknownFormatError(
            f"the preset {name!r} names no format", hint="Name at least one, the one to write first."
        )
    first, *others = read
    calls = [item for form in others for item in form.reply.items if isinstance(item, Calls)]
    calls.extend(item for form in others for item in form.reply.also)
    thinks = [item for form in others for item in form.reply.items if isinstance(item, Think)]
    opened = {spelling for item in first.reply.items if isinstance(item, Think) for spelling in item.open.spellings}
    more = tuple(item for item in thinks if not opened & set(item.open.spellings))
    wrappers = tuple(item for form in others for item in form.reply.items if isinstance(item, Free) and item.open)
    fence = next((form.reply.fence for form in (first, *others) if form.reply.fence), "")
    return replace(
        first,
        name=name,
        about=f"{first.name}, reading also {', '.join(form.name for form in others)}",
        reply=replace(first.reply, also=(*first.reply.also, *calls), more=(*more, *wrappers), fence=fence),
        tokens=tuple(dict.fromkeys(token for form in (first, *others) for token in form.tokens)),
        stops=tuple(dict.fromkeys(stop for form in (first, *others) for stop in form.stops)),
    )
