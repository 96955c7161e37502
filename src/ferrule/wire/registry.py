"""The registry of formats by name. Built-in formats are in `formats/`; others come from an entry point or `register`.

A preset parses several formats at once, in priority order, and renders the first.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Mapping
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

ALIASES: Mapping[str, str] = {
    "qwen25": "hermes_strict",
    "llama32": "llama3",
    "mistral": "mistral_v3",
    "granite": "granite4",
    "gemma": "gemma4",
}
"""Names of the specification, for families of which we know several formats: the one that it means."""

_registered: dict[str, Format] = {}


@cache
def _family_modules() -> tuple[ModuleType, ...]:
    names = sorted(info.name for info in pkgutil.iter_modules(families.__path__))
    return tuple(importlib.import_module(f"{families.__name__}.{name}") for name in names)


@cache
def _load_formats() -> dict[str, Format]:
    by_name: dict[str, Format] = {}
    for module in _family_modules():
        for form in cast("tuple[Format, ...]", module.FORMATS):
            _add(by_name, form)
    for point in entry_points(group=ENTRY_POINTS):
        loaded = point.load()
        for form in loaded if isinstance(loaded, tuple) else (loaded,):  # pyright: ignore[reportUnknownVariableType]
            _add(by_name, cast("Format", form))
    return by_name


def _add(by_name: dict[str, Format], form: Format) -> None:
    if form.name in by_name:
        raise FormatConflictError(
            f"two formats are called {form.name!r}", hint="Rename one of them: names must be unique."
        )
    by_name[form.name] = form


def register(form: Format) -> Format:
    """Add a format for this process. An installed package uses the entry point group `ferrule.formats` instead.

    Example:
        from dataclasses import replace

        from ferrule.formats import get_format, register

        register(replace(get_format("hermes"), name="my_hermes", about="our fine-tune"))
    """
    if form.name in _load_formats():
        raise FormatConflictError(f"two formats are called {form.name!r}", hint="Give yours another name.")
    _add(_registered, form)
    return form


def all_formats() -> dict[str, Format]:
    """Return every known format by name, sorted.

    Example:
        from ferrule.formats import all_formats

        for name, form in all_formats().items():
            print(name, form.about)
    """
    return dict(sorted({**_load_formats(), **_registered}.items()))


def get_format(name: str) -> Format:
    """Return the format with this name. Raises `UnknownFormatError` and lists the known names.

    Example:
        from ferrule.formats import get_format

        hermes = get_format("hermes")
    """
    by_name = all_formats()
    known_name = name if name in by_name else ALIASES.get(name, name)
    if known_name not in by_name:
        raise UnknownFormatError(f"no format is called {name!r}", hint=f"Known: {', '.join(by_name)}.")
    return by_name[known_name]


def families_of_formats() -> dict[str, tuple[Format, ...]]:
    """The formats of each module in `formats/`."""
    return {
        module.__name__.rpartition(".")[2]: cast("tuple[Format, ...]", module.FORMATS) for module in _family_modules()
    }


def examples() -> tuple[Example, ...]:
    """All examples of all modules in `formats/`."""
    return tuple(example for module in _family_modules() for example in cast("tuple[Example, ...]", module.EXAMPLES))


def preset(name: str, members: Iterable[str]) -> Format:
    """Return a format that renders the first member and parses all of them.

    If two members begin alike, the earlier one is tried first.

    Example:
        from ferrule.formats import parse, preset

        lenient = preset("lenient", ["hermes", "llama3", "bare_json"])
        parse(lenient, '{"name": "ping", "parameters": {}}').calls
    """
    chosen_formats = [get_format(member) for member in members]
    if not chosen_formats:
        raise UnknownFormatError(
            f"the preset {name!r} has no members",
            hint="Give at least one format; the first is the one that is rendered.",
        )
    first, *others = chosen_formats
    calls = [item for form in others for item in form.reply.items if isinstance(item, Calls)]
    calls.extend(item for form in others for item in form.reply.also)
    thinks = [item for form in others for item in form.reply.items if isinstance(item, Think)]
    open_spellings = {
        spelling for item in first.reply.items if isinstance(item, Think) for spelling in item.open.spellings
    }
    more = tuple(item for item in thinks if not open_spellings & set(item.open.spellings))
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
