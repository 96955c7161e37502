"""Small files that say what they are for."""

import ast
from pathlib import Path

import pytest

from architecture.source_tree import ROOT, modules

LONGEST = 400
FOLDERS = ("src", "lab", "tests", "scripts", "examples", "docs")


def code_lines(source: str) -> int:
    """Count lines without docstrings and comments: no explanation is left out to keep a limit."""
    tree = ast.parse(source)
    explained: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            explained.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines = enumerate(source.splitlines(), start=1)
    return sum(number not in explained and not line.lstrip().startswith("#") for number, line in lines)


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_python_file_is_too_long(folder: str) -> None:
    lengths = {path: code_lines(path.read_text(encoding="utf-8")) for path in (ROOT / folder).rglob("*.py")}
    broken = [f"{_relative(path)}: {lines} lines" for path, lines in sorted(lengths.items()) if lines > LONGEST]
    assert not broken, f"{broken}: over {LONGEST} lines of code; split by subject, each part with a name of its own"


def test_every_module_says_what_it_is_for() -> None:
    silent = [
        _relative(path)
        for path in modules().values()
        if not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert not silent, f"{silent}: begin with a docstring: what the module is for, and what it must not know"


def _relative(path: Path) -> str:
    return str(path.relative_to(ROOT))
