"""Draw the packages of the source and their allowed imports: `docs/images/layout.svg`.

The table of allowed imports is passed in: it is the one that the architecture tests check every import against.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

from lab.pages.svg import Box, arrow, picture, rectangle, words

Table = Mapping[str, tuple[str, ...]]
_WIDTH, _ROW = 1100, 112
# The height of the top layer, the bottom layer and their margins.
_TOP_AND_BOTTOM = 212
_ABOUT = "Each package is drawn above those that it imports from, and names what it may import besides errors and core."
# A short description of each package, and the horizontal position of its centre.
_PACKAGES = {
    "schema": ("JSON Schema: admit, check, infer", 550),
    "rules": ("grammars for constrained decoding", 200),
    "dialects": ("API encoders and decoders", 555),
    "sources": ("where tools come from and run", 905),
    "wire": ("text that a model reads and writes", 200),
    "engines": ("model servers and libraries", 390),
    "run": ("the tool loop, its limits, the ledger", 550),
    "server": ("the gateway", 200),
    "llm_chat": ("a model on the bus", 550),
    "integrations": ("one file per framework", 900),
}
_BOTTOM = ("core", "errors", "lazy_exports", "version")
_TOP = ("events", "formats", "gateway", "hooks", "ledger", "specification", "testing", "bench", "cli")
_BOX_WIDTH = 326


def layout_picture(may_import: Table) -> str:
    """Return the picture as SVG. `may_import` uses full module names, a package's own entry before its modules'."""
    packages = {name: _imports_of(may_import, name) for name in _packages(may_import)}
    levels = {name: _level(name, packages) for name in packages}
    height = _ROW * max(levels.values()) + _TOP_AND_BOTTOM
    boxes = {name: Box(_PACKAGES[name][1], height - 60 - _ROW * levels[name], _BOX_WIDTH, 74) for name in packages}
    parts = [
        one
        for name in packages
        for other in _direct_dependencies(name, packages)
        for one in _arrows(boxes[name], boxes[other])
    ]
    for name, box in boxes.items():
        parts += _package(name, box, may_import[f"ferrule.{name}"])
    parts += _layer(_TOP, "public modules, measurements and commands: may import anything; nothing imports them", 48)
    parts += _layer(_BOTTOM, "values and errors: any package may import them; they import nothing", height - 60)
    parts.append(words("* only from the modules listed in AGENTS.md", _WIDTH / 2, height - 14, "small"))
    return picture("The packages of Ferrule and their allowed imports", _ABOUT, _WIDTH, height, parts)


def _packages(may_import: Table) -> Iterator[str]:
    for module in may_import:
        package, _, name = module.partition(".")
        assert package == "ferrule"
        if name and "." not in name and not name.startswith("_") and name not in (*_BOTTOM, *_TOP):
            assert name in _PACKAGES, f"the package {name} has no position in {__name__}"
            yield name


def _imports_of(may_import: Table, package: str) -> set[str]:
    """The packages that a package may import from, entirely or in part."""
    return {module.split(".")[1] for module in may_import[f"ferrule.{package}"]}


def _level(package: str, packages: Mapping[str, set[str]]) -> int:
    return 1 + max((_level(other, packages) for other in packages[package]), default=0)


def _direct_dependencies(package: str, packages: Mapping[str, set[str]]) -> list[str]:
    """The dependencies that no other dependency has: the rest are reached through them and need no arrow."""
    own = packages[package]
    return sorted(one for one in own if not any(one in _dependencies_of(other, packages) for other in own))


def _dependencies_of(package: str, packages: Mapping[str, set[str]]) -> set[str]:
    return packages[package].union(*(_dependencies_of(other, packages) for other in packages[package]))


def _arrows(upper: Box, lower: Box) -> Iterator[str]:
    start, end = (upper.x, upper.y + upper.height / 2), (lower.x, lower.top - 1)
    # Spread the arrows that end at one box, so that they do not all meet in its middle.
    shift = max(-90.0, min(90.0, (upper.x - lower.x) / 3))
    end = (end[0] + shift, end[1])
    half = (start[1] + end[1]) / 2
    yield arrow(start, (start[0], half), (end[0], half), end)


def _package(name: str, box: Box, allowed: tuple[str, ...]) -> Iterator[str]:
    yield rectangle(box)
    yield words(name, box.x, box.y - 16, "name")
    yield words(_PACKAGES[name][0], box.x, box.y + 4)
    yield words(_modules_text(allowed), box.x, box.y + 24, "small")


def _modules_text(allowed: tuple[str, ...]) -> str:
    """The allowed imports as text. Single modules of a package are shown as `engines*`; AGENTS.md lists them."""
    if not allowed:
        return "imports nothing else"
    names = sorted(module.removeprefix("ferrule.") for module in allowed)
    packages = [name.partition(".")[0] + ("*" if "." in name else "") for name in names]
    return "imports " + ", ".join(one for before, one in pairwise(["", *packages]) if one != before)


def _layer(names: tuple[str, ...], about: str, middle: float) -> Iterator[str]:
    yield rectangle(Box(_WIDTH / 2, middle, _WIDTH - 60, 56), "end")
    yield words(", ".join(names), _WIDTH / 2, middle - 6, "name")
    yield words(about, _WIDTH / 2, middle + 15, "small")
