"""The rooms of the source and who may import whom, as a picture: `docs/images/house.svg`.

The table is handed in: it is the one that the tests of the architecture hold every import against.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

from lab.pages.svg import Box, arrow, picture, rectangle, words

Table = Mapping[str, tuple[str, ...]]
_WIDTH, _ROW = 1100, 112
# The roof, the floor and what keeps them apart from the rooms.
_ROOF_AND_FLOOR = 212
_ABOUT = "Rooms stand above those that they import from. Each says what it may import, besides errors and core."
# What a room is for, in a few words, and how far from the left its middle is.
_ROOMS = {
    "schema": ("JSON Schema: admit, check, infer", 550),
    "rules": ("what may be generated", 200),
    "dialects": ("APIs as codecs, both ways", 555),
    "sources": ("where tools come from and run", 905),
    "wire": ("text that a model reads and writes", 200),
    "engines": ("what generates", 390),
    "run": ("the loop, its limits, the ledger", 550),
    "server": ("the gateway", 340),
    "integrations": ("one file per framework", 760),
}
_FLOOR, _ROOF = ("core", "errors"), ("bench", "cli")
_BOX_WIDTH = 326


def house_picture(may_import: Table) -> str:
    """`may_import` names modules by their whole names, a room's own entry before those of its parts."""
    rooms = {name: _whole(may_import, name) for name in _rooms(may_import)}
    levels = {name: _level(name, rooms) for name in rooms}
    height = _ROW * max(levels.values()) + _ROOF_AND_FLOOR
    boxes = {name: Box(_ROOMS[name][1], height - 60 - _ROW * levels[name], _BOX_WIDTH, 74) for name in rooms}
    parts = [one for name in rooms for other in _drawn(name, rooms) for one in _arrows(boxes[name], boxes[other])]
    for name, box in boxes.items():
        parts += _room(name, box, may_import[f"ferrule.{name}"])
    parts += _storey(_ROOF, "measurements and commands: may import anything, and nobody imports them", 48)
    parts += _storey(_FLOOR, "errors and values: everybody may import them, and they import nothing", height - 60)
    parts.append(words("* only from files that are named in AGENTS.md", _WIDTH / 2, height - 14, "small"))
    return picture("The rooms of Ferrule, and who may import whom", _ABOUT, _WIDTH, height, parts)


def _rooms(may_import: Table) -> Iterator[str]:
    for module in may_import:
        package, _, name = module.partition(".")
        assert package == "ferrule"
        if name and "." not in name and not name.startswith("_") and name not in (*_FLOOR, *_ROOF):
            assert name in _ROOMS, f"the room {name} has no place in {__name__}"
            yield name


def _whole(may_import: Table, room: str) -> set[str]:
    """The rooms that a room may import from, be it only from a part."""
    return {module.split(".")[1] for module in may_import[f"ferrule.{room}"]}


def _level(room: str, rooms: Mapping[str, set[str]]) -> int:
    return 1 + max((_level(other, rooms) for other in rooms[room]), default=0)


def _drawn(room: str, rooms: Mapping[str, set[str]]) -> list[str]:
    """Those that no other of them stands on: an arrow to the rest would only repeat a longer way."""
    return sorted(one for one in rooms[room] if not any(one in _reached(other, rooms) for other in rooms[room]))


def _reached(room: str, rooms: Mapping[str, set[str]]) -> set[str]:
    return rooms[room].union(*(_reached(other, rooms) for other in rooms[room]))


def _arrows(upper: Box, lower: Box) -> Iterator[str]:
    start, end = (upper.x, upper.y + upper.height / 2), (lower.x, lower.top - 1)
    # Arrows that come from afar do not all end in the middle.
    shift = max(-90.0, min(90.0, (upper.x - lower.x) / 3))
    end = (end[0] + shift, end[1])
    half = (start[1] + end[1]) / 2
    yield arrow(start, (start[0], half), (end[0], half), end)


def _room(name: str, box: Box, allowed: tuple[str, ...]) -> Iterator[str]:
    yield rectangle(box)
    yield words(name, box.x, box.y - 16, "name")
    yield words(_ROOMS[name][0], box.x, box.y + 4)
    yield words(_listed(allowed), box.x, box.y + 24, "small")


def _listed(allowed: tuple[str, ...]) -> str:
    """`engines.engine` and `engines.pick` as `engines*`: the table in AGENTS.md names the files."""
    if not allowed:
        return "imports nothing else"
    names = sorted(module.removeprefix("ferrule.") for module in allowed)
    rooms = [name.partition(".")[0] + ("*" if "." in name else "") for name in names]
    return "imports " + ", ".join(one for before, one in pairwise(["", *rooms]) if one != before)


def _storey(names: tuple[str, ...], about: str, middle: float) -> Iterator[str]:
    yield rectangle(Box(_WIDTH / 2, middle, _WIDTH - 60, 56), "end")
    yield words(", ".join(names), _WIDTH / 2, middle - 6, "name")
    yield words(about, _WIDTH / 2, middle + 15, "small")
