"""Small files that say what they are for."""

import ast
from pathlib import Path

import pytest

from architecture.source_tree import ROOT, modules

LONGEST = 400
FOLDERS = ("src", "lab", "tests", "scripts", "examples", "docs")


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_python_file_is_too_long(folder: str) -> None:
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in (ROOT / folder).rglob("*.py")}
    broken = [f"{_shown(path)}: {lines} lines" for path, lines in sorted(lengths.items()) if lines > LONGEST]
    assert not broken, f"{broken}: over {LONGEST} lines; split by subject, each part with a name of its own"


def test_every_module_says_what_it_is_for() -> None:
    silent = [
        _shown(path)
        for path in modules().values()
        if not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert not silent, f"{silent}: begin with a docstring: what the module is for, and what it must not know"


def _shown(path: Path) -> str:
    return str(path.relative_to(ROOT))
