"""README, docs, examples, docstrings and help texts import only public modules, and only public names of them."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from architecture.public_surface import expected_exports, private_names
from architecture.source_tree import ROOT, modules

PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "AGENTS.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").rglob("*.md")),
]
PROGRAMS = sorted((ROOT / "examples").rglob("*.py"))
_FROM = re.compile(r"\bfrom (ferrule(?:\.\w+)*) import (\([^)]*\)|\w+(?:, *\w+)*|\*)")
_IMPORT = re.compile(r"^[ \t>]*import (ferrule(?:\.\w+)*)", re.MULTILINE)
# Module paths in running text, such as `ferrule.run.elicitation.ApprovalElicitationHandler`.
_PACKAGES = "|".join(sorted({module.split(".")[1] for module in modules() if module.count(".") > 1}))
_PATH = re.compile(rf"\bferrule\.(?:{_PACKAGES})(?:\.\w+)+")


def imports_in(text: str) -> Iterator[tuple[str, list[str]]]:
    """The imports of Ferrule that a text shows: the module, and the names taken from it."""
    for module, names in _FROM.findall(text):
        words = re.sub(r"#[^\n]*|\bas \w+", "", names)
        yield module, re.findall(r"\w+|\*", words)
    for module in _IMPORT.findall(text):
        yield module, []


def private_imports(text: str) -> list[str]:
    return [name for module, names in imports_in(text) for name in private_names(module, names)]


@pytest.mark.parametrize(
    "text, private",
    [
        ("from ferrule import tool", []),
        ("from ferrule import sources", []),
        ("from ferrule.sources import mcp, Bus", []),
        ("from ferrule.ledger import open as open_ledger", []),
        ("import ferrule.ledger", []),
        ("from ferrule.integrations.langchain import ChatFerrule", []),
        ("from ferrule import get_format", ["ferrule.get_format"]),
        ("from ferrule.run.events import LoopEvent", ["ferrule.run.events"]),
        ("from ferrule.sources import (\n    Bus,  # the bus\n    read_config,\n)", ["ferrule.sources.read_config"]),
        ("    import ferrule.wire.parser", ["ferrule.wire.parser"]),
    ],
)
def test_the_check_reads_as_meant(text: str, private: list[str]) -> None:
    assert private_imports(text) == private


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_page_imports_only_what_is_public(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert not private_imports(text), _remedy()
    paths = [path for path in _PATH.findall(text) if not _is_public(path)]
    assert not paths, f"{paths} are paths of private modules; {_remedy()}"


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: str(path.relative_to(ROOT)))
def test_an_example_imports_only_what_is_public(program: Path) -> None:
    assert not private_imports(program.read_text(encoding="utf-8")), _remedy()


def test_docstrings_and_help_texts_import_only_what_is_public() -> None:
    broken = [
        f"{path.relative_to(ROOT)}:{line} {name}"
        for path in modules().values()
        for line, text in _strings(path)
        for name in private_imports(text)
    ]
    assert not broken, "\n  ".join(["", *broken, _remedy()])


def _strings(path: Path) -> Iterator[tuple[int, str]]:
    """Every string in a module: docstrings, help texts, hints."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        # lazy_exports explains to developers how a public module imports private ones.
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and path.name != "lazy_exports.py":
            yield node.lineno, node.value


def _is_public(path: str) -> bool:
    module, _, name = path.rpartition(".")
    exports = expected_exports()
    return path in exports or name in exports.get(module, ()) or _is_public_member(module)


def _is_public_member(path: str) -> bool:
    module, _, name = path.rpartition(".")
    return name in expected_exports().get(module, ())


def _remedy() -> str:
    return "import it from a public module (tests/architecture/exports.txt), or show it another way"
